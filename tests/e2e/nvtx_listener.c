/* nvtx_listener.c - what NVTX loads into a program when NVTX_INJECTION64_PATH names it, as Nsight's own library would be:
 * writes the ranges that each thread opens and closes to the file that NVTX_LOG names, "+ name" and "-". */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>

static FILE *ranges;

static int push(const char *name) {
    fprintf(ranges, "+ %s\n", name);
    return 0;
}

static int pop(void) {
    fprintf(ranges, "-\n");
    return 0;
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table) {
    const NvtxExportTableCallbacks *callbacks = get_export_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table;
    unsigned size;
    ranges = fopen(getenv("NVTX_LOG"), "w");
    if (!ranges || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size)) return 0;
    *table[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push;
    *table[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
    return 1;
}

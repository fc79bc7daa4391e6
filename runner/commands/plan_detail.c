/* plan_detail.c - prints the tiles, traffic, memory and predicted bound of each run, for `tilerun plan --detail`. */
#include "../base/fail.h"
#include "../base/text.h"
#include "plan_print.h"

/* Prints the tile and the extent of each loop that has more than one iteration, and the number of steps. */
static void print_tiles(const struct geometry *geometry, const struct tiling *tiling, FILE *to) {
    static const char names[] = "bmnk";
    fprintf(to, "    tiles    ");
    for (int loop = 0; loop < LOOPS; loop++)
        if (geometry->extent[loop] != 1)
            fprintf(to, " %c %lld/%lld", names[loop], (long long)tiling->tile[loop], (long long)geometry->extent[loop]);
    text_print(to, ", %lld step%s\n", (long long)tiling->steps, tiling->steps == 1 ? "" : "s");
}

/* Prints a paragraph about a run: tiles, work, memory, and the predicted time of each stage. */
static void print_run(const struct plan *plan, const struct run *run, FILE *to) {
    const struct task *task = &plan->tasks[run->task];
    const struct geometry *geometry = &task->geometry;
    const struct tiling *tiling = &run->tiling;
    char a[32], b[32], c[32];
    text_print(to, "run %d  %s%s%s%s  %s %s  %s  on %s\n", run->number, task->operation->id,
               task->operation->label[0] ? " (" : "", task->operation->label, task->operation->label[0] ? ")" : "",
               operations[geometry->op]->name, run->label, geometry->shape_text,
               run->skip ? "nothing" : plan->facts[run->device].id);
    if (run->skip) {
        text_print(to, "    skipped   %s\n", run->skip);
        return;
    }
    if (run->note) text_print(to, "    note      %s\n", run->note);
    print_tiles(geometry, tiling, to);
    text_print(to, "    work      %.3g flop, %s at least, %s read and written\n", geometry->flops,
               size_text(geometry->bytes, a), size_text(tiling->traffic_bytes, b));
    if (run->kernel->traffic_bytes) {
        double bytes = plan_modelled_bytes(plan, run);
        text_print(to, "    traffic   %s between kernel and device memory, as modelled", size_text(bytes, a));
        if (geometry->bytes > 0) fprintf(to, ": %.3g times the least", bytes / geometry->bytes);
        fprintf(to, "\n");
    }
    text_print(to, "    memory    %s of %s: inputs", size_text((double)tiling->memory_bytes, a),
               size_text((double)plan->budget[run->device], b));
    for (int i = 0; i < geometry->inputs; i++)
        text_print(to, "%s %d x %s", i ? "," : "", tiling->in_slots[i], size_text((double)tiling->in_bytes[i], c));
    fprintf(to, "; output %d x %s", tiling->out_slots, size_text((double)tiling->out_bytes, c));
    if (tiling->partial_bytes) fprintf(to, "; partial %s", size_text((double)tiling->partial_bytes, c));
    if (tiling->workspace_bytes) fprintf(to, "; workspace %s", size_text((double)tiling->workspace_bytes, c));
    int64_t host = run->device == DEVICE_CUDA ? plan_host_bytes(geometry, tiling) : 0;
    if (host) fprintf(to, "; pinned on the host %s", size_text((double)host, c));
    fprintf(to, "\n    stages    read %.3g s, copy %.3g s, compute %.3g s, write %.3g s\n", tiling->read_s,
            tiling->copy_s, tiling->compute_s, tiling->write_s);
    text_print(to, "    bound     %.3g s, by %s; predicted %.3g s\n", tiling->bound_s, tiling->bound_by,
               tiling->predicted_s);
}

/* Prints how the stored values of an input are decoded. */
static void print_decoding(const struct array *array, FILE *to) {
    OWNED char *title = array_title(array);
    if (array->remark) text_print(to, "%s: %s\n", title, array->remark);
    if (!array->decoding) return;
    OWNED char *how =
        array->mixed_decoding ? must_strdup("each file by its own attributes") : decoding_text(array->decoding);
    text_print(to, "%s: %s: %s\n", title, array->keeps_stored ? "as stored, decoded later" : "decoded", how);
}

void plan_print_detail(const struct plan *plan, FILE *to) {
    for (int i = 0; i < plan->job->input_count; i++) print_decoding(&plan->arrays[i], to);
    for (int i = 0; i < plan->run_count; i++) print_run(plan, &plan->runs[i], to);
}

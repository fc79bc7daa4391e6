/* facts.c - writes and reads the facts about a device that a plan depends on. */
#include "facts.h"
#include "../storage/h5/h5attribute.h"

#include <stddef.h>
#include <stdio.h>

/* A member of struct device_facts. facts_table lists those that a plan depends on. */
struct fact {
    const char *name;
    enum { TEXT, INT, LONG, REAL } type;
    size_t offset, size;
};
#define FACT(type, member)                                                                                             \
    { #member, type, offsetof(struct device_facts, member), sizeof((struct device_facts *)0)->member }
static const struct fact facts_table[] = {
    FACT(TEXT, name),
    FACT(TEXT, id),
    FACT(TEXT, uuid),
    FACT(INT, compute_capability),
    FACT(INT, multiprocessors),
    FACT(INT, host_threads),
    FACT(LONG, memory_free),
    FACT(LONG, memory_total),
    FACT(LONG, cache_bytes),
    FACT(REAL, copy_bytes_per_s),
    FACT(REAL, memory_bytes_per_s),
    FACT(REAL, read_bytes_per_s),
    FACT(REAL, write_bytes_per_s),
};
enum { FACTS = sizeof facts_table / sizeof *facts_table };
static const char *const device_groups[2] = {[DEVICE_CPU] = "/devices/cpu", [DEVICE_CUDA] = "/devices/cuda"};

/* Writes one member of the facts as an attribute of the group. */
static enum status write_fact(hid_t group, const struct fact *fact, const struct device_facts *facts,
                              struct error *error) {
    const char *member = (const char *)facts + fact->offset;
    switch (fact->type) {
    case TEXT: return h5_set_text(group, fact->name, member, error);
    case INT: return h5_set_integer(group, fact->name, *(const int *)member, error);
    case LONG: return h5_set_integer(group, fact->name, *(const int64_t *)(const void *)member, error);
    case REAL: return h5_set_real(group, fact->name, *(const double *)(const void *)member, error);
    }
    return STATUS_OK;
}

/* Reads one member of the facts. false: the group lacks this member. */
static bool read_fact(hid_t group, const struct fact *fact, struct device_facts *facts) {
    char *member = (char *)facts + fact->offset;
    OWNED char *text = fact->type == TEXT ? h5_get_text(group, fact->name) : NULL;
    int64_t integer;
    switch (fact->type) {
    case TEXT:
        if (text) snprintf(member, fact->size, "%s", text);
        return text != NULL;
    case INT:
        if (!h5_get_number(group, fact->name, INT64, &integer)) return false;
        *(int *)(void *)member = (int)integer;
        return true;
    case LONG: return h5_get_number(group, fact->name, INT64, member);
    case REAL: return h5_get_number(group, fact->name, FLOAT64, member);
    }
    return false;
}

static void flops_name(int dtype, char name[64]) {
    snprintf(name, 64, "flops_per_s_%s", dtype_name((enum dtype)dtype));
}

enum status facts_write(hid_t file, const struct device_facts *facts, struct error *error) {
    OWNED_ID hid_t group = H5I_INVALID_HID;
    TRY(h5_group(file, device_groups[facts->kind], &group, error));
    for (int i = 0; i < FACTS; i++) TRY(write_fact(group, &facts_table[i], facts, error));
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        char name[64];
        flops_name(dtype, name);
        TRY(h5_set_real(group, name, facts->flops_per_s[dtype], error));
    }
    return STATUS_OK;
}

bool facts_read(hid_t file, enum kernel_device kind, struct device_facts *facts) {
    *facts = (struct device_facts){.kind = kind};
    OWNED_ID hid_t group =
        H5Lexists(file, "/devices", H5P_DEFAULT) > 0 && H5Lexists(file, device_groups[kind], H5P_DEFAULT) > 0
            ? H5Gopen2(file, device_groups[kind], H5P_DEFAULT)
            : H5I_INVALID_HID;
    bool complete = group >= 0;
    for (int i = 0; i < FACTS && complete; i++) complete = read_fact(group, &facts_table[i], facts);
    for (int dtype = 0; dtype < DTYPE_COUNT && complete; dtype++) {
        char name[64];
        flops_name(dtype, name);
        complete = h5_get_number(group, name, FLOAT64, &facts->flops_per_s[dtype]);
    }
    return complete;
}

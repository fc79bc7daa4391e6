/* plan_print.c - what `tilerun plan` shows: per run its tiles, traffic, memory and predicted bound. */
#include "../base/text.h"
#include "plan.h"

static void print_tiles(const struct run *run, const struct geometry *geometry, FILE *to) {
    static const char names[] = "bmnk";
    fprintf(to, "    tiles    ");
    for (int loop = 0; loop < LOOPS; loop++)
        if (geometry->extent[loop] != 1)
            fprintf(to, " %c %lld/%lld", names[loop], (long long)run->tile[loop], (long long)geometry->extent[loop]);
    fprintf(to, ", %lld step%s\n", (long long)run->steps, run->steps == 1 ? "" : "s");
}

static void print_run(const struct plan *plan, const struct run *run, FILE *to) {
    const struct task *task = &plan->tasks[run->task];
    const struct geometry *geometry = &task->geometry;
    char a[32], b[32], c[32];
    fprintf(to, "run %d  %s%s%s%s  %s %s  %s  on %s\n", run->number, task->operation->id,
            task->operation->label[0] ? " (" : "", task->operation->label, task->operation->label[0] ? ")" : "",
            operations[geometry->op]->name, run->label, geometry->shape_text,
            run->skip ? "nothing" : plan->facts[run->device].id);
    if (run->skip) {
        fprintf(to, "    skipped   %s\n", run->skip);
        return;
    }
    if (run->note) fprintf(to, "    note      %s\n", run->note);
    print_tiles(run, geometry, to);
    fprintf(to, "    work      %.3g flop, %s at least, %s read and written\n", geometry->flops,
            size_text(geometry->bytes, a), size_text(run->traffic_bytes, b));
    if (run->kernel->traffic_bytes) {
        double bytes = plan_modelled_bytes(plan, run);
        fprintf(to, "    traffic   %s asked of the device's memory, as modelled", size_text(bytes, a));
        if (geometry->bytes > 0) fprintf(to, ": %.3g x the least", bytes / geometry->bytes);
        fprintf(to, "\n");
    }
    fprintf(to, "    memory    %s of %s: inputs", size_text((double)run->memory_bytes, a),
            size_text((double)plan->budget[run->device], b));
    for (int i = 0; i < geometry->inputs; i++)
        fprintf(to, "%s %d x %s", i ? "," : "", run->in_slots[i], size_text((double)run->in_bytes[i], c));
    fprintf(to, "; output %d x %s", run->out_slots, size_text((double)run->out_bytes, c));
    if (run->partial_bytes) fprintf(to, "; partial %s", size_text((double)run->partial_bytes, c));
    if (run->workspace_bytes) fprintf(to, "; workspace %s", size_text((double)run->workspace_bytes, c));
    int64_t host = run->device == DEVICE_CUDA ? plan_host_bytes(run, geometry) : 0;
    if (host) fprintf(to, "; pinned on the host %s", size_text((double)host, c));
    fprintf(to, "\n    stages    read %.3g s, copy %.3g s, compute %.3g s, write %.3g s\n", run->read_s, run->copy_s,
            run->compute_s, run->write_s);
    fprintf(to, "    bound     %.3g s, by %s; predicted %.3g s\n", run->bound_s, run->bound_by, run->predicted_s);
}

void plan_print(const struct plan *plan, FILE *to) {
    for (int i = 0; i < plan->run_count; i++) print_run(plan, &plan->runs[i], to);
}

/* plan_table.h - prints plans, for `tilerun plan`. */
#ifndef RUNNER_PLAN_TABLE_H
#define RUNNER_PLAN_TABLE_H

#include "../plan/plan.h"
#include <stdio.h>

/* Prints what `tilerun plan` shows: a row for each run, at most `width` columns wide (0: as wide as it is); the tiles,
 * bytes and bounds of each with `--detail`. */
void plan_print_table(const struct plan *plan, int width, FILE *to);
void plan_print_json(const struct plan *plan, FILE *to);
void plan_print_detail(const struct plan *plan, FILE *to);

#endif

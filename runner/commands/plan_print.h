/* plan_print.h - prints a plan for `tilerun plan`. Tables are at most `width` columns wide (0: no limit). */
#ifndef RUNNER_PLAN_PRINT_H
#define RUNNER_PLAN_PRINT_H

#include "../divide/division.h"
#include "../plan/plan.h"
#include <stdio.h>

/* Prints a sentence as printf does, wrapped. */
void plan_print_line(int width, FILE *to, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Prints the predictions of each run, and their sum. */
void plan_print_table(const struct plan *plan, int width, FILE *to);
void plan_print_json(const struct plan *plan, FILE *to);
/* For `--detail`: prints the tiles, bytes and bounds of each run. */
void plan_print_detail(const struct plan *plan, FILE *to);
/* For `--shards N`: prints a row for each shard, or for the longest of many; how even they are, and how many make
 * sense. */
void plan_print_shards(const struct plan *plan, const struct division_terms *terms, int width, FILE *to);
void plan_print_shards_json(const struct plan *plan, const struct division_terms *terms, FILE *to);

#endif

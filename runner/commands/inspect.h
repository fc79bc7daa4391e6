/* inspect.h - prints a listing for `tilerun inspect`. */
#ifndef RUNNER_INSPECT_H
#define RUNNER_INSPECT_H

#include "inspect_listing.h"

/* A table of the data sets, and remarks. */
void inspect_print_table(struct listing *listing);
/* The only data set of the listing, in detail. */
void inspect_print_one(struct listing *listing);
/* A job to begin with. STATUS_USAGE: a job can read nothing of the file. */
enum status inspect_print_job(struct listing *listing, struct error *error);

#endif

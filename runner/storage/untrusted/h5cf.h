/* h5cf.h - the attributes of the CF conventions (decode.h) in HDF5 files. */
#ifndef RUNNER_H5CF_H
#define RUNNER_H5CF_H

#include "../../job/job.h"
#include "../elements/decode.h"
#include "../h5/h5io.h"

/* How the values of an input follow from its data set, by the attributes and the job's `decode` and `missing`; NULL:
 * they are what is stored. *remark becomes a sentence about an attribute that cannot be applied, or NULL. The caller
 * frees both. *unit_lost: `decode: none` gives numbers that are not in the data set's unit. A netCDF-4 file's variable
 * without `_FillValue` has netCDF's default. */
struct decoding *h5cf_decoding(const struct h5_dataset *dataset, const struct job_input *input, bool *unit_lost,
                               char **remark);

/* Is it the name of an attribute that says how stored numbers become values? */
bool h5cf_is_packing(const char *name);
/* Gives a data set of the stored numbers the attributes by which others decode them as `decoding` does: `_FillValue`
 * and `missing_value` in the type that is stored, the others in their own. */
enum status h5cf_write(hid_t dataset, const struct decoding *decoding, struct error *error);

/* Has `_FillValue` and `missing_value` in the type of a data set that was stored as another; what that does not have
 * is deleted. */
void h5cf_retype(hid_t dataset, enum dtype dtype);

/* Calls `print` for each attribute that says what the numbers mean (CF's, and NWB's and openPMD's factors and units),
 * as text, of the data set `name`. A file that cannot be opened has none. */
void h5cf_list(const char *path, const char *name, void (*print)(const char *name, const char *text));

#endif

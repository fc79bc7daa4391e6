/* h5cf.h - reads and writes the attributes of the CF conventions (decode.h) in HDF5 files. */
#ifndef RUNNER_H5CF_H
#define RUNNER_H5CF_H

#include "../../job/job.h"
#include "../elements/decode.h"
#include "../h5/h5io.h"

/* Returns how the stored numbers of an input are decoded, by its attributes and the job keys `decode` and `missing`;
 * NULL: they are not. *remark becomes a sentence about an attribute that cannot be applied, or NULL. The caller frees
 * both. *unit_lost: with `decode: none` the numbers are not in the unit of the data set. A variable of a netCDF-4 file
 * without `_FillValue` has the default of netCDF. */
struct decoding *h5cf_decoding(const struct h5_dataset *dataset, const struct job_input *input, bool *unit_lost,
                               char **remark);

/* Is `name` an attribute that defines how stored numbers become values? */
bool h5cf_is_packing(const char *name);
/* Writes the attributes with which other programs decode a data set of stored numbers as `decoding` does: `_FillValue`
 * and `missing_value` in the stored type, the others in their own. */
enum status h5cf_write(hid_t dataset, const struct decoding *decoding, struct error *error);

/* Converts `_FillValue` and `missing_value` to the new type of a data set; deletes a number that the type does not
 * represent. */
void h5cf_retype(hid_t dataset, enum dtype dtype);

/* Calls `print` for each attribute of data set `name` that defines the meaning of its numbers: those of CF, and factors
 * and units of NWB and openPMD. Prints nothing if the file cannot be opened. */
void h5cf_list(const char *path, const char *name, void (*print)(const char *name, const char *text));

#endif

/* h5cf.h - reads and writes the attributes of the CF conventions (decode.h) in HDF5 files. */
#ifndef RUNNER_H5CF_H
#define RUNNER_H5CF_H

#include "../../base/job_input.h"
#include "../elements/decode.h"
#include "../h5/h5io.h"

/* Returns how the stored numbers of an input are decoded, by its attributes and the job keys `decode` and `missing`;
 * NULL: they are used as they are stored. *remark becomes a sentence about an attribute that cannot be applied, or
 * NULL. The caller frees both. *unit_lost becomes true if the job says `decode: none` and the stored numbers are not in
 * the unit that the attributes state. A variable of a netCDF-4 file without `_FillValue` has the default fill value of
 * netCDF. */
struct decoding *h5cf_decoding(const struct h5_dataset *dataset, const struct job_input *input, bool *unit_lost,
                               char **remark);

/* Is `name` an attribute that defines how stored numbers become values? */
bool h5cf_is_packing(const char *name);
/* Writes the attributes by which other programs decode the stored numbers of a data set as `decoding` does.
 * `_FillValue` and `missing_value` get the stored type; the others keep their own types. */
enum status h5cf_write(hid_t dataset, const struct decoding *decoding, struct error *error);

/* Converts `_FillValue` and `missing_value` of a data set to its new type `dtype`; deletes a number that the type does
 * not represent, and `_Unsigned`. */
void h5cf_retype(hid_t dataset, enum dtype dtype);

/* Calls `print` for each attribute of data set `name` that defines the meaning of its numbers: the attributes of CF,
 * and the factors and units of NWB and openPMD. Does nothing if the data set cannot be opened. */
void h5cf_list(const char *path, const char *name, void (*print)(const char *name, const char *text));

#endif

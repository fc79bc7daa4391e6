/* h5attribute.h - reads and writes attributes of files, groups and data sets. */
#ifndef RUNNER_H5ATTRIBUTE_H
#define RUNNER_H5ATTRIBUTE_H

#include "h5io.h"

/* Set an attribute, replacing an existing one. Text is variable-length UTF-8. */
enum status h5_set_text(hid_t object, const char *name, const char *value, struct error *error);
enum status h5_set_integer(hid_t object, const char *name, int64_t value, struct error *error);
enum status h5_set_real(hid_t object, const char *name, double value, struct error *error);
enum status h5_set_shape(hid_t object, const char *name, const struct shape *shape, struct error *error);
/* Does the object have attributes? Costs less than looking for one by its name. */
bool h5_has_attributes(hid_t object);
/* The text of an attribute; NULL: it does not exist or is not one text. The caller frees. */
char *h5_get_text(hid_t object, const char *name);
/* Like h5_get_text, but for an object in a file or group; NULL also if there is no such object. */
char *h5_get_text_of(hid_t file, const char *object, const char *name);
/* Reads an attribute that is one number, as int64_t or double (`dtype`); false: it does not exist or is not one
 * number. */
bool h5_get_number(hid_t object, const char *name, enum dtype dtype, void *value);
/* An attribute that is one integer; `missing`: it does not exist or is not one number. */
int64_t h5_get_integer(hid_t object, const char *name, int64_t missing);
/* The text of another program's attribute (`units`, `long_name`) without surrounding blanks; NULL: it does not exist,
 * is empty or is not UTF-8. The caller frees. */
char *h5_get_trimmed_text(hid_t object, const char *name);

#endif

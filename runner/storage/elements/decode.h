/* decode.h - what the stored numbers of a data set mean, by the attributes of the CF conventions:
 *
 *     value = stored * scale_factor + add_offset
 *
 * and NaN where `_FillValue`, `missing_value`, `valid_min`, `valid_max`, `valid_range` or the job say that a value is
 * missing. `_Unsigned` reinterprets the sign of the stored integers, and of these attributes with them. The arithmetic
 * is NumPy's, as netCDF4-python and xarray do it: where these two agree, so do all bits.
 *
 * No HDF5 here: h5cf.h reads the attributes. */
#ifndef RUNNER_DECODE_H
#define RUNNER_DECODE_H

#include "../../../kernels/core/convert.h"

#define CF_MISSING 16 /* numbers of `missing_value`, and of the job's `missing` */

/* A number of an attribute or of the job, with its type. */
struct cf_number {
    bool there;
    enum dtype dtype;
    double real;
    int64_t integer; /* of an integer type: the number; of UINT64: its bits */
};

enum cf_sign { CF_SIGN_AS_STORED, CF_SIGN_UNSIGNED, CF_SIGN_SIGNED };

/* What a data set and the job say. All zeros: nothing. */
struct cf {
    struct cf_number factor, offset, fill;
    struct cf_number low, high; /* of valid_range, else of valid_min and valid_max */
    int missing_count;          /* of these the last `asked` are the job's */
    int asked;
    struct cf_number missing[2 * CF_MISSING];
    enum cf_sign sign;
    bool netcdf; /* `fill` is netCDF's default for the type: the file states none */
};

/* A number that stored elements are compared with, in the type that they are read as. */
struct decode_mark {
    bool exact; /* of 64-bit integers: compared as one, else as float64 */
    double real;
    int64_t integer;
};

/* How elements are decoded: what follows from `said` for their type. */
struct decoding {
    struct cf said;
    enum dtype stored;   /* in the file */
    enum dtype as;       /* the same bits, once `_Unsigned` is applied */
    enum dtype computed; /* FLOAT32 or FLOAT64: what the arithmetic is done in */
    enum dtype result;   /* of the decoded elements */
    bool scales;         /* factor and offset change something */
    int mark_count;
    struct decode_mark marks[2 * CF_MISSING + 1];
    bool has_low, has_high;
    bool unpacked; /* the bounds are of decoded values, else of stored ones... */
    bool narrow;   /* ...rounded to float32 */
    struct decode_mark low, high;
};

/* netCDF's default fill value of a type; `there` false: it has none (8 bits, and floats that netCDF does not have). */
struct cf_number cf_netcdf_fill(enum dtype dtype);

/* Finds out what changes for elements of type `stored`. false: nothing does. *useless becomes a sentence about numbers
 * that no element can equal, or NULL; the caller frees. */
bool decoding_make(const struct cf *said, enum dtype stored, struct decoding *decoding, char **useless);
/* NULL: of NULL. The caller frees. */
struct decoding *decoding_copy(const struct decoding *decoding);
/* All that it depends on, as text: equal where, and only where, all elements are decoded alike. The caller frees. */
char *decoding_key(const struct decoding *decoding);
/* A type that holds all results of both. */
enum dtype decoding_common(enum dtype one, enum dtype other);

/* Decodes `count` adjacent elements and converts them to `wanted`, as convert_elements does. Counts what becomes
 * missing as casts->missing. The memories must not overlap. */
void decode_elements(const struct decoding *decoding, const void *from, int64_t count, enum dtype wanted, void *to,
                     struct casts *casts);

/* "stored * 0.01 + 273.15, missing where -32767 or outside 0 to 100". The caller frees. */
char *decoding_text(const struct decoding *decoding);
/* The shortest text that reads back as the same number of its type; into `text`, which is returned. */
#define CF_NUMBER_TEXT 40
const char *cf_number_text(const struct cf_number *number, char text[CF_NUMBER_TEXT]);

#endif

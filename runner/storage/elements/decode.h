/* decode.h - decodes stored numbers by the attributes of the CF conventions:
 *
 *     value = stored * scale_factor + add_offset
 *
 * and NaN where `_FillValue`, `missing_value`, `valid_min`, `valid_max`, `valid_range` or the job mark a value as
 * missing. `_Unsigned` reinterprets the sign of the stored integers, and of these attributes with them. The arithmetic
 * is NumPy's, as in netCDF4-python and xarray: where these two agree, results are equal in all bits.
 *
 * This module does not use HDF5; h5cf.h reads the attributes. */
#ifndef RUNNER_DECODE_H
#define RUNNER_DECODE_H

#include "../../../kernels/core/convert.h"

#define CF_MISSING 16 /* most numbers of `missing_value`, and of `missing` of the job */

/* A number from an attribute or the job, with its type. */
struct cf_number {
    bool given;
    enum dtype dtype;
    double real;
    int64_t integer; /* the number if its type is an integer; the bits of a UINT64 */
};

enum cf_sign { CF_SIGN_AS_STORED, CF_SIGN_UNSIGNED, CF_SIGN_SIGNED };

/* The attributes of a data set and the keys of the job. All zeros: none are given. */
struct cf {
    struct cf_number factor, offset, fill;
    struct cf_number low, high; /* valid_range; without it valid_min and valid_max */
    int missing_count;          /* the last `asked` of these come from the job */
    int asked;
    struct cf_number missing[2 * CF_MISSING];
    enum cf_sign sign;
    bool netcdf; /* the file states no fill value: `fill` is the default of netCDF for the type */
};

/* A number that stored elements are compared with, in the type as which they are read. */
struct decode_mark {
    bool exact; /* compare as 64-bit integer; else as float64 */
    double real;
    int64_t integer;
    bool decoded; /* the mark is a bound: compare it with decoded elements */
    bool narrow;  /* the decoded elements are rounded to float32, as the bound is */
};

/* The decoding of elements, derived from `attributes` and the stored type. */
struct decoding {
    struct cf attributes;
    enum dtype stored;   /* type in the file */
    enum dtype read_as;  /* type of the same bits after `_Unsigned` is applied */
    enum dtype computed; /* type of the arithmetic: FLOAT32 or FLOAT64 */
    enum dtype result;   /* type of decoded elements */
    bool scales;         /* factor or offset changes values */
    int mark_count;
    struct decode_mark marks[2 * CF_MISSING + 1];
    bool has_low, has_high;
    struct decode_mark low, high;
};

/* The default fill value of netCDF for a type; `given` is false for 8-bit types and for floats that netCDF does not
 * have. */
struct cf_number cf_netcdf_fill(enum dtype dtype);

/* The smallest integer type of at least `bytes` bytes; one of 8 bytes if `bytes` is more. */
enum dtype cf_integer_dtype(size_t bytes, bool is_signed);
/* Derives how elements of type `stored` are decoded. false: decoding changes nothing. *useless becomes a sentence about
 * attribute numbers that no element can equal, or NULL; the caller frees. */
bool decoding_make(const struct cf *attributes, enum dtype stored, struct decoding *decoding, char **useless);
/* Copies; NULL gives NULL. The caller frees. */
struct decoding *decoding_copy(const struct decoding *decoding);
/* All parameters as text: two keys are equal exactly if all elements are decoded equally. The caller frees. */
char *decoding_key(const struct decoding *decoding);
/* A type that represents all results of both. */
enum dtype decoding_common(enum dtype one, enum dtype other);

/* Decodes `count` adjacent elements and converts them to `wanted`, as convert_elements does. Adds the numbers of
 * missing and of rounded elements to *casts. `from` and `to` must not overlap. */
void decode_elements(const struct decoding *decoding, const void *from, int64_t count, enum dtype wanted, void *to,
                     struct casts *casts);

/* "stored * 0.01 + 273.15, missing where -32767 or outside 0 to 100". The caller frees. */
char *decoding_text(const struct decoding *decoding);
/* Writes the shortest text that reads back as the same number of its type into `text`, and returns it. */
#define CF_NUMBER_TEXT 40
const char *cf_number_text(const struct cf_number *number, char text[CF_NUMBER_TEXT]);

#endif

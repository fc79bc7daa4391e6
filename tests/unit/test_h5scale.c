/* test_h5scale.c - dimension scales: what is read of them, copies whole and cut, placeholders, and scales attached to
 * more data sets than the oldest headers of HDF5 have room for. */
#include "../../runner/storage/h5/h5attribute.h"
#include "../../runner/storage/h5/h5file.h"
#include "../../runner/storage/h5/h5scale.h"
#include "../../runner/storage/untrusted/h5kind.h"
#include "scratch.h"

#include <string.h>

enum { LENGTH = 5, OUTPUTS = 9000 };

/* A file as HDF5 writes it by default, in its oldest format: a scale "time" with a unit, and a matrix whose first axis
 * has it, as the library's own attributes say. */
static hid_t make_input(const char *path) {
    struct error error = {.status = STATUS_OK};
    const hsize_t size[] = {LENGTH, 3};
    const float values[LENGTH] = {0, 1, 2, 3, 4};
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t line = H5Screate_simple(1, size, NULL), plane = H5Screate_simple(2, size, NULL);
    hid_t time = H5Dcreate2(file, "time", H5T_IEEE_F32BE, line, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    hid_t matrix = H5Dcreate2(file, "x", H5T_IEEE_F32LE, plane, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    hobj_ref_t scale, data;
    char *labels[2] = {NULL, (char[]){"größe"}};
    assert_true(H5Dwrite(time, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    assert_true(H5Rcreate(&scale, file, "time", H5R_OBJECT, -1) >= 0);
    assert_true(H5Rcreate(&data, file, "x", H5R_OBJECT, -1) >= 0);
    assert_int_equal(h5_set_text(time, "units", "s", &error), STATUS_OK);
    assert_int_equal(h5_set_scales(matrix, 2, (struct h5_axis_list[]){{1, &scale}, {0, NULL}}, &error), STATUS_OK);
    assert_int_equal(h5_set_attached(time, 1, &(struct h5_attached){data, 0}, &error), STATUS_OK);
    assert_int_equal(h5_set_axis_labels(matrix, 2, labels, &error), STATUS_OK);
    H5Dclose(time);
    H5Sclose(line);
    H5Sclose(plane);
    H5Fclose(file);
    return matrix; /* keeps the file open */
}

static void assert_elements(hid_t group, const char *name, int count, const float *expected) {
    float found[LENGTH] = {0};
    hid_t scale = H5Dopen2(group, name, H5P_DEFAULT), space = H5Dget_space(scale);
    assert_int_equal(H5Sget_simple_extent_npoints(space), count);
    assert_true(H5Dread(scale, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, found) >= 0);
    assert_memory_equal(found, expected, (size_t)count * sizeof *expected);
    char *units = h5_get_text(scale, "units"), *class = h5_get_text(scale, "CLASS");
    assert_string_equal(units, "s");
    assert_string_equal(class, "DIMENSION_SCALE");
    assert_true(H5Aexists(scale, "REFERENCE_LIST") == 0);
    free(class);
    free(units);
    H5Sclose(space);
    H5Dclose(scale);
}

static void test_copies(void **state) {
    struct error error = {.status = STATUS_OK};
    const float values[LENGTH] = {0, 1, 2, 3, 4};
    hid_t matrix = make_input(in_folder("in.h5")), file, *scales;
    char *label = h5_axis_label(matrix, 1);
    assert_string_equal(label, "größe");
    free(label);
    assert_null(h5_axis_label(matrix, 0));
    assert_false(h5_axis_has_scales(matrix, 1));
    assert_int_equal(h5_axis_scales(matrix, 0, &scales), 1);
    char *name = h5_scale_name(scales[0]);
    assert_string_equal(name, "time");
    free(name);

    assert_int_equal(h5_create_file(in_folder("out.h5"), &file, &error), STATUS_OK);
    assert_null(h5_copy_scale(scales[0], LENGTH, 0, LENGTH, 1, file, "whole"));
    assert_null(h5_copy_scale(scales[0], LENGTH, 1, 3, 1, file, "band"));
    assert_null(h5_copy_scale(scales[0], LENGTH, 2, 0, 1, file, "nothing"));
    assert_non_null(h5_copy_scale(scales[0], LENGTH + 1, 1, 3, 1, file, "of another length"));
    assert_elements(file, "whole", LENGTH, values);
    assert_elements(file, "band", 3, values + 1);
    assert_elements(file, "nothing", 0, values);
    assert_true(H5Lexists(file, "of another length", H5P_DEFAULT) == 0);
    assert_non_null(h5_copy_scale(scales[0], LENGTH, 0, LENGTH, 1, file, "whole")); /* the name is taken */
    assert_elements(file, "whole", LENGTH, values);

    assert_int_equal(h5_create_placeholder(file, "hollow", 7, &error), STATUS_OK);
    hid_t hollow = H5Dopen2(file, "hollow", H5P_DEFAULT);
    assert_int_equal(h5_attribute_marks(hollow), H5_MARK_ANY | H5_MARK_SCALE | H5_MARK_PLACEHOLDER);
    assert_true(H5Dget_storage_size(hollow) == 0);
    H5Dclose(hollow);

    struct h5_attached *axes = calloc(OUTPUTS, sizeof *axes), *found = calloc(OUTPUTS, sizeof *found);
    assert_true(axes && found);
    for (int i = 0; i < OUTPUTS; i++) axes[i] = (struct h5_attached){(hobj_ref_t)i + 1, i % 3};
    hid_t copy = H5Dopen2(file, "whole", H5P_DEFAULT);
    assert_int_equal(h5_set_attached(copy, OUTPUTS, axes, &error), STATUS_OK);
    hid_t attribute = H5Aopen(copy, "REFERENCE_LIST", H5P_DEFAULT), type = H5Aget_type(attribute);
    assert_int_equal(H5Tget_size(type), sizeof *axes);
    assert_true(H5Aread(attribute, type, found) >= 0);
    for (int i = 0; i < OUTPUTS; i++) assert_true(found[i].dataset == axes[i].dataset && found[i].axis == axes[i].axis);
    free(found);
    free(axes);
    H5Tclose(type);
    H5Aclose(attribute);
    H5Dclose(copy);
    H5Dclose(scales[0]);
    free(scales);
    H5Dclose(matrix);
    assert_int_equal(h5_close_file(file, &error), STATUS_OK);
    assert_int_equal(H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_copies)};
    return cmocka_run_group_tests_name("h5scale", tests, make_folder, remove_folder);
}

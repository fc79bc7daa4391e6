/* stream_products.cu - compiles stream.cu's kernels for products, with a lane type (lanes.cuh) for each data type. */
#include "stream_launch.cuh"

int stream_products(const struct launch *launch) {
    return dispatch_product_lanes(
        launch->dtype, [&](auto lane_type) -> int { return stream_start<typename decltype(lane_type)::type>(launch); });
}

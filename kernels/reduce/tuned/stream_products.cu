/* stream_products.cu - stream.cu's kernels for products. */
#include "stream_launch.cuh"

int stream_products(const struct launch *launch, uint64_t mirror) {
    return dispatch_product_lanes(
        launch->dtype, [&](auto lane) -> int { return stream_start<typename decltype(lane)::type>(launch, mirror); });
}

/* stream_norms.cu - stream.cu's kernels for norms. */
#include "stream_launch.cuh"

int stream_norms(const struct launch *launch, uint64_t mirror) {
    return dispatch_norm_lanes(
        launch->dtype, [&](auto lane) -> int { return stream_start<typename decltype(lane)::type>(launch, mirror); });
}

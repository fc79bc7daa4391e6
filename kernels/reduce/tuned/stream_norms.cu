/* stream_norms.cu - compiles stream.cu's kernels for norms, with a lane type (lanes.cuh) for each data type. */
#include "stream_launch.cuh"

int stream_norms(const struct launch *launch) {
    return dispatch_norm_lanes(
        launch->dtype, [&](auto lane_type) -> int { return stream_start<typename decltype(lane_type)::type>(launch); });
}

/* stream_skipping.cu - compiles stream.cu's kernels for floats that skip NaNs; lanes.cuh has the lane types. */
#include "stream_launch.cuh"

int stream_skipping(const struct launch *launch) {
    return dispatch_skipping_lanes(launch->dtype, launch->args.reduce.operator_, [&](auto lane_type) -> int {
        return stream_start<typename decltype(lane_type)::type>(launch);
    });
}

/* stream_extremes.cu - compiles stream.cu's kernels for min, max, argmin and argmax; lanes.cuh has the lane types. */
#include "stream_launch.cuh"

int stream_extremes(const struct launch *launch) {
    return dispatch_extreme_lanes(launch->dtype, launch->args.reduce.operator_, [&](auto lane_type) -> int {
        return stream_start<typename decltype(lane_type)::type>(launch);
    });
}

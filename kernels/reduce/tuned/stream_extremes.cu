/* stream_extremes.cu - compiles stream.cu's kernels for min, max, argmin and argmax, with a lane type (lanes.cuh) for each data type. */
#include "stream_launch.cuh"

int stream_extremes(const struct launch *launch) {
    return dispatch_extreme_lanes(launch->dtype, launch->args.reduce.operator_, [&](auto lane_type) -> int {
        return stream_start<typename decltype(lane_type)::type>(launch);
    });
}

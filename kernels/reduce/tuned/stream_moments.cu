/* stream_moments.cu - compiles stream.cu's kernels for variances and counts of NaNs, with a lane type (lanes.cuh) for each data type. */
#include "stream_launch.cuh"

int stream_moments(const struct launch *launch) {
    return dispatch_moment_lanes(launch->dtype, launch->args.reduce.operator_, [&](auto lane_type) -> int {
        return stream_start<typename decltype(lane_type)::type>(launch);
    });
}

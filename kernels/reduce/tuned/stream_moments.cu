/* stream_moments.cu - compiles stream.cu's kernels for variances and counts of NaNs; lanes.cuh has the lane types. */
#include "stream_launch.cuh"

int stream_moments(const struct launch *launch) {
    return dispatch_moment_lanes(launch->dtype, launch->args.reduce.operator_, [&](auto lane_type) -> int {
        return stream_start<typename decltype(lane_type)::type>(launch);
    });
}

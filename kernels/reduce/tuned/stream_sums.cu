/* stream_sums.cu - compiles stream.cu's kernels for sums and means, with a lane type (lanes.cuh) for each data type. */
#include "stream_launch.cuh"

int stream_sums(const struct launch *launch) {
    return dispatch_sum_lanes(launch->dtype, launch->args.reduce.operator_, [&](auto lane_type) -> int {
        return stream_start<typename decltype(lane_type)::type>(launch);
    });
}

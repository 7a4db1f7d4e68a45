/* SPDX-License-Identifier: MIT */
/* The kernel dialect for GLSL; kernels/prelude.clh defines it for OpenCL C. Specialisation constants 0 and 1 are the
   group size, 2 to 7 the kernel's own. */
#extension GL_EXT_control_flow_attributes : require
#define real float /* element of a tensor in memory: only through LOAD and STORE */
#define LOAD(x, i) (x[i])
#define STORE(x, i, v) (x[i] = (v))

#define GROUP(x, y)                                                                                \
    layout(constant_id = 0) const uint GROUP_X = x;                                                \
    layout(constant_id = 1) const uint GROUP_Y = y;                                                \
    layout(local_size_x_id = 0, local_size_y_id = 1) in;
#define SPEC(i, NAME) layout(constant_id = 2 + i) const int NAME = 0;
#define PARAMS(fields) layout(push_constant, std430) uniform params { fields uint group_base; } p;
#define PARAMS_NONE layout(push_constant, std430) uniform params { uint group_base; } p;
#define GROUP_ARRAY(T, name, len) shared T name[len];
#define GROUP_ARRAY_HERE(T, name, len)

/* Each starts inside the layout(...) that KERNELn opens. */
#define IN(T, name) std430) restrict readonly buffer name##_slot { T name[]; }
#define OUT(T, name) std430) restrict buffer name##_slot { T name[]; }
#define TEXEL(name) rgba32f) uniform readonly imageBuffer name

/* Four floats. QUAD_VIEW: the input buffer i, declared as `x`, may also be read in whole quads. */
#define QUAD vec4
#define QUAD_VIEW(i, x)                                                                            \
    layout(set = 0, binding = i, std430) restrict readonly buffer x##_quad_slot { vec4 x##_quads[]; };
#define LOAD_QUAD(x, i) (x##_quads[i])
#define MAKE_QUAD(a, b, c, d) vec4(a, b, c, d)
#define TO_QUAD(v) vec4(v)
#define PICK_QUAD(cond, a, b) mix(b, a, bvec4(cond))
#define PUT_IN_QUADS(x, i, v) (x[(i) / 4u][(i) % 4u] = (v))
#define UNROLL [[unroll]]
/* Eights of numbers of 16 bits, likewise. */
#define EIGHT_VIEW(i, x)                                                                           \
    layout(set = 0, binding = i, std430) restrict readonly buffer x##_eight_slot { uvec4 x##_eights[]; };

#define L_(i) layout(set = 0, binding = i,
#define KERNEL1(k, a) L_(0) a; void main()
#define KERNEL2(k, a, b) L_(0) a; L_(1) b; void main()
#define KERNEL3(k, a, b, c) L_(0) a; L_(1) b; L_(2) c; void main()
#define KERNEL4(k, a, b, c, d) L_(0) a; L_(1) b; L_(2) c; L_(3) d; void main()
#define KERNEL5(k, a, b, c, d, e) L_(0) a; L_(1) b; L_(2) c; L_(3) d; L_(4) e; void main()
#define KERNEL6(k, a, b, c, d, e, f)                                                               \
    L_(0) a; L_(1) b; L_(2) c; L_(3) d; L_(4) e; L_(5) f; void main()
#define KERNEL7(k, a, b, c, d, e, f, g)                                                            \
    L_(0) a; L_(1) b; L_(2) c; L_(3) d; L_(4) e; L_(5) f; L_(6) g; void main()
#define KERNEL8(k, a, b, c, d, e, f, g, h)                                                         \
    L_(0) a; L_(1) b; L_(2) c; L_(3) d; L_(4) e; L_(5) f; L_(6) g; L_(7) h; void main()

/* Core folds a flat count of groups on x and y and may cut it: group_base is where a part starts. */
#define GROUP_INDEX()                                                                              \
    (gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x + p.group_base)
#define GROUP_SIZE (GROUP_X * GROUP_Y)
#define LOCAL_ID(d) (gl_LocalInvocationID[d])
#define LOCAL_INDEX() (gl_LocalInvocationIndex)
#define INDEX() (GROUP_INDEX() * GROUP_SIZE + LOCAL_INDEX())
#define BARRIER() barrier()

#define FN
#define INLINE_FN
#define EXACT precise
#define TO_F32(x) float(x)
#define TO_U32(x) uint(x)
#define TO_I32(x) int(x)
#define AS_FLOAT(u) uintBitsToFloat(u)
#define AS_UINT(f) floatBitsToUint(f)
#define FMA(a, b, c) fma(a, b, c)
#define MIN(a, b) min(a, b)
#define MAX(a, b) max(a, b)
#define SELECT(cond, a, b) ((cond) ? (a) : (b))
/* Element i if `inside`, else z, without a branch around the load: element `last` is loaded for a larger i. */
#define LOAD_OR(x, i, last, inside, z) PICK(inside, LOAD(x, MIN(i, last)), z)
/* SELECT of floats that are both computed: a load in it is no branch. */
#define PICK(cond, a, b) mix(b, a, cond)
#define INF uintBitsToFloat(0x7f800000u)
#define NAN_ uintBitsToFloat(0x7fc00000u)
#define IS_NAN(x) ((floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u)
#define fmax max
#define fmin min
#define fabs abs
#define rsqrt inversesqrt

uint mul_hi_(uint a, uint b)
{
    uint high, low;
    umulExtended(a, b, high, low);
    return high;
}
#define MUL_HI(a, b) mul_hi_(a, b)

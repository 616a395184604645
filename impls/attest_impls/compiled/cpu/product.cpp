// x W^T for few rows x: every weight is read once, from where it lies, while it is multiplied.
//
// BLAS first copies W into an order of its own; for the rows of a decoding step that takes as long as
// multiplying. Here a tile of M rows of W meets N vectors of rows of x, which lie transposed in the cache:
// for each k there are M broadcasts and N loads for M * N products, and all sums stay in registers. M is 8
// although there are registers for more: 16 rows of W at a time take 1.4 times as long for the same products.
//
// Up to FEW rows the tiles would be half empty. There a row of W streams past all rows of x at once, a line of
// the cache at a time: with 4 rows and two cores that takes 0.7 of the time of tiles, with 8 rows 1.3.
//
// Shapes: W (out, in), x (rows, in), y (rows, out), each row by row.

#include <algorithm>
#include <vector>

#pragma GCC optimize("fp-contract=fast")

constexpr long LINE = 16;    // numbers in a cache line
constexpr long DEPTH = 512;  // numbers of each row of x that are at hand in the nearest cache
constexpr long FEW = 4;      // rows up to which W streams
constexpr long AHEAD = 1024;  // numbers between what is multiplied and what is asked of the memory

template <int LANES>
struct Numbers {
    typedef float Vector __attribute__((vector_size(LANES * sizeof(float)), aligned(alignof(float))));
};

// M columns of y from `length` columns of W and x, added to what is there if there is `more`; `next` is where
// the following tile of W begins.
template <int LANES, int M, int N>
static void tile(const float* w, const float* next, const float* x, float* y, long length, long in, long out,
                 long used, bool more) {
    using Vector = typename Numbers<LANES>::Vector;
    Vector sum[M][N] = {};
    for (long line = 0; line < length; line += LINE) {
        for (int m = 0; m < M; m++) __builtin_prefetch(next + m * in + line);
        const long end = std::min(line + LINE, length);
        for (long k = line; k < end; k++) {
            const Vector* across = reinterpret_cast<const Vector*>(x + k * N * LANES);
            for (int m = 0; m < M; m++) {
                const Vector weight = w[m * in + k] - Vector{};
                for (int n = 0; n < N; n++) sum[m][n] += weight * across[n];
            }
        }
    }
    for (long r = 0; r < used; r++)
        for (int m = 0; m < M; m++) {
            const float whole = sum[m][r / LANES][r % LANES];
            y[r * out + m] = more ? y[r * out + m] + whole : whole;
        }
}

// x (rows, in) as (part, in, COLUMNS): what the same k of all rows of a part needs is one stretch.
template <long COLUMNS>
static void turn(const float* x, float* across, long in, long rows) {
#pragma omp for collapse(2)
    for (long first = 0; first < rows; first += COLUMNS)
        for (long line = 0; line < in; line += LINE)
            for (long r = first; r < std::min(first + COLUMNS, rows); r++)
                for (long k = line; k < std::min(line + LINE, in); k++)
                    across[first * in + k * COLUMNS + r - first] = x[r * in + k];
}

template <int LANES, int M, int N>
static void multiply(const float* w, const float* x, float* y, long in, long out, long rows) {
    constexpr long COLUMNS = N * LANES;
    static thread_local std::vector<float> kept;
    kept.resize((rows + COLUMNS - 1) / COLUMNS * COLUMNS * in);
    float* across = kept.data();
#pragma omp parallel
    {
        turn<COLUMNS>(x, across, in, rows);
        for (long k = 0; k < in; k += DEPTH)
            // Each thread gets the same tiles every time, so nobody waits for a sum of another.
#pragma omp for schedule(static) nowait
            for (long o = 0; o < out; o += M) {
                const long length = std::min(DEPTH, in - k);
                for (long first = 0; first < rows; first += COLUMNS) {
                    const long used = std::min(COLUMNS, rows - first);
                    const float* part = across + first * in + k * COLUMNS;
                    const float* here = w + o * in + k;
                    float* there = y + first * out + o;
                    if (o + 2 * M <= out)
                        tile<LANES, M, N>(here, here + M * in, part, there, length, in, out, used, k > 0);
                    else if (o + M <= out)
                        tile<LANES, M, N>(here, here, part, there, length, in, out, used, k > 0);
                    else
                        for (long m = 0; m < out - o; m++)
                            tile<LANES, 1, N>(here + m * in, here, part, there + m, length, in, out, used, k > 0);
                }
            }
    }
}

// R columns of y, each number a sum over a row of W.
template <int R>
static void stream(const float* w, const float* x, float* y, long in, long out) {
    constexpr int LANES = 8, PARTS = LINE / LANES;
    using Vector = Numbers<LANES>::Vector;
    const long lines = in / LINE * LINE;
#pragma omp parallel for schedule(static)
    for (long o = 0; o < out; o++) {
        const float* row = w + o * in;
        Vector sum[R][PARTS] = {};
        for (long line = 0; line < lines; line += LINE) {
            __builtin_prefetch(row + line + AHEAD);
            for (long p = 0; p < PARTS; p++) {
                const long k = line + p * LANES;
                const Vector weight = *reinterpret_cast<const Vector*>(row + k);
                for (int r = 0; r < R; r++) sum[r][p] += weight * *reinterpret_cast<const Vector*>(x + r * in + k);
            }
        }
        for (int r = 0; r < R; r++) {
            float whole = 0;
            for (const Vector& part : sum[r])
                for (int lane = 0; lane < LANES; lane++) whole += part[lane];
            for (long k = lines; k < in; k++) whole += row[k] * x[r * in + k];
            y[r * out + o] = whole;
        }
    }
}

extern "C" void product(const float* w, const float* x, float* y, long in, long out, long rows) {
    if (rows == 2) return stream<2>(w, x, y, in, out);
    if (rows == 3) return stream<3>(w, x, y, in, out);
    if (rows == FEW) return stream<FEW>(w, x, y, in, out);
    if (rows <= 8) return multiply<8, 8, 1>(w, x, y, in, out, rows);
#ifdef __AVX512F__
    if (rows <= 16) return multiply<16, 8, 1>(w, x, y, in, out, rows);
    multiply<16, 8, 2>(w, x, y, in, out, rows);
#else
    multiply<8, 6, 2>(w, x, y, in, out, rows);
#endif
}

/* The inner loops of the codec: what kernels.py does with numpy, in one pass through the cache instead of twenty.
 *
 * Gives the same bits as numpy: one IEEE rounding per operation, in the order of docs/formats/vault.md, nothing fused. It must be compiled
 * without -ffast-math and with -ffp-contract=off (setup.py does; a test compares both). All sizes are checked before the lock is given up.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif
#define INLINED static inline __attribute__((always_inline))

enum { CHUNK = 1024, MAX_WIDTH = 8, MAX_BASES = 5, MAX_PARAMETERS = 4 };
enum { FLOAT8 = 1, BFLOAT16 = 3, FLOAT32 = 4, FLOAT64 = 5 };
enum { NONE, PREVIOUS, ROUNDED, SCALED, SQUARES, ADAM, ADAM_FAR, MOMENTUM };
static const int WIDTHS[] = {1, 1, 2, 2, 4, 8, 2, 4, 8};
static const int BASES[] = {0, 1, 1, 1, 3, 3, 5, 3};
static const int PARAMETERS[] = {0, 0, 0, 1, 4, 3, 4, 3};

typedef struct {
    int form, predictor;
    size_t count;
    const uint8_t *bases[MAX_BASES];
    int base_forms[MAX_BASES];
    float parameters[MAX_PARAMETERS];
} Task;

INLINED uint32_t bits_of(float value) { uint32_t bits; memcpy(&bits, &value, 4); return bits; }
INLINED float float_of(uint32_t bits) { float value; memcpy(&value, &bits, 4); return value; }
INLINED float finite_or_zero(float value) {
    uint32_t bits = bits_of(value);
    return float_of((bits & 0x7F800000u) == 0x7F800000u ? 0u : bits);
}

INLINED void widen(const uint8_t *base, int form, size_t at, size_t n, float *out) {
    if (form == BFLOAT16) {
        uint16_t narrow[CHUNK];
        memcpy(narrow, base + 2 * at, 2 * n);
        for (size_t i = 0; i < n; i++) out[i] = float_of((uint32_t)narrow[i] << 16);
    } else {
        memcpy(out, base + 4 * at, 4 * n);
    }
}

INLINED float update(float m, float v, float rate, float epsilon) { return finite_or_zero(m / (sqrtf(v) + epsilon) * rate); }

/* The predicted floats of one chunk, finite. */
INLINED void formula(const Task *task, size_t at, size_t n, float *out) {
    float x[MAX_BASES][CHUNK];
    const float *p = task->parameters;
    for (int k = 0; k < BASES[task->predictor]; k++) widen(task->bases[k], task->base_forms[k], at, n, x[k]);
    switch (task->predictor) {
    case SCALED:
        for (size_t i = 0; i < n; i++) out[i] = x[0][i] * p[0];
        break;
    case SQUARES:
        for (size_t i = 0; i < n; i++) {
            float v = x[0][i], m0 = x[1][i], m1 = x[2][i];
            float value = v * p[0] + m1 * (m1 * p[1] + m0 * p[2]) + m0 * m0 * p[3];
            out[i] = value < 0 ? 0.0f : value;
        }
        break;
    case ADAM:
        for (size_t i = 0; i < n; i++) out[i] = x[0][i] * p[0] + update(x[1][i], x[2][i], p[1], p[2]);
        break;
    case ADAM_FAR:
        for (size_t i = 0; i < n; i++)
            out[i] = x[0][i] * p[0] + (update(x[1][i], x[2][i], p[1], p[2]) + update(x[3][i], x[4][i], p[3], p[2]));
        break;
    case MOMENTUM:
        for (size_t i = 0; i < n; i++) out[i] = x[0][i] * p[0] + (x[1][i] * p[1] + x[2][i] * p[2]);
        break;
    default: /* ROUNDED */
        memcpy(out, x[0], 4 * n);
    }
    for (size_t i = 0; i < n; i++) out[i] = finite_or_zero(out[i]);
}

INLINED uint16_t rounded(float value) {
    uint32_t bits = bits_of(value);
    return (uint16_t)((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

/* For each width: elements to planes and back. ``guess`` is only called for predictions; 2 and 4 bytes are what formulas give. */
#define OF_WIDTH(BITS)                                                                                                                   \
    typedef uint##BITS##_t U##BITS;                                                                                                      \
    INLINED void guess##BITS(const Task *task, size_t at, size_t n, U##BITS *out) {                                                      \
        if (task->predictor == PREVIOUS) {                                                                                               \
            memcpy(out, task->bases[0] + sizeof(U##BITS) * at, sizeof(U##BITS) * n);                                                     \
        } else {                                                                                                                         \
            float values[CHUNK];                                                                                                         \
            formula(task, at, n, values);                                                                                                \
            if (BITS == 32)                                                                                                              \
                memcpy(out, values, sizeof(U##BITS) * n);                                                                                \
            else                                                                                                                         \
                for (size_t i = 0; i < n; i++) out[i] = (U##BITS)rounded(values[i]);                                                     \
        }                                                                                                                                \
    }                                                                                                                                    \
    INLINED U##BITS sign##BITS(U##BITS bits) { return (U##BITS)((U##BITS)0 - (U##BITS)(bits >> (BITS - 1))); }                           \
    INLINED U##BITS ordered##BITS(U##BITS bits) { return bits ^ (U##BITS)(sign##BITS(bits) | (U##BITS)((U##BITS)1 << (BITS - 1))); }     \
    INLINED U##BITS unordered##BITS(U##BITS v) {                                                                                         \
        return v ^ (U##BITS)((U##BITS)~sign##BITS(v) | (U##BITS)((U##BITS)1 << (BITS - 1)));                                             \
    }                                                                                                                                    \
    INLINED U##BITS rotated##BITS(U##BITS v) { return (U##BITS)((U##BITS)(v << 1) | (U##BITS)(v >> (BITS - 1))); }                       \
    INLINED U##BITS unrotated##BITS(U##BITS v) { return (U##BITS)((U##BITS)(v >> 1) | (U##BITS)(v << (BITS - 1))); }                     \
    FOR_EACH_PROCESSOR static void to_planes##BITS(const Task *task, const uint8_t *from, uint8_t *const *planes) {                      \
        int of_float = task->form >= FLOAT8 && task->form <= FLOAT64;                                                                    \
        U##BITS x[CHUNK], p[CHUNK];                                                                                                      \
        for (size_t at = 0; at < task->count; at += CHUNK) {                                                                             \
            size_t n = task->count - at < CHUNK ? task->count - at : CHUNK;                                                              \
            memcpy(x, from + sizeof(U##BITS) * at, sizeof(U##BITS) * n);                                                                 \
            if (task->predictor != NONE) {                                                                                               \
                guess##BITS(task, at, n, p);                                                                                             \
                if (of_float)                                                                                                            \
                    for (size_t i = 0; i < n; i++) x[i] = (U##BITS)(ordered##BITS(x[i]) - ordered##BITS(p[i]));                          \
                else                                                                                                                     \
                    for (size_t i = 0; i < n; i++) x[i] = (U##BITS)(x[i] - p[i]);                                                        \
                for (size_t i = 0; i < n; i++) x[i] = (U##BITS)(x[i] << 1) ^ sign##BITS(x[i]);                                           \
            } else if (of_float) {                                                                                                       \
                for (size_t i = 0; i < n; i++) x[i] = rotated##BITS(x[i]);                                                               \
            }                                                                                                                            \
            for (int k = 0; k < BITS / 8; k++) {                                                                                         \
                uint8_t *plane = planes[k] + at;                                                                                         \
                for (size_t i = 0; i < n; i++) plane[i] = (uint8_t)(x[i] >> (BITS - 8 - 8 * k));                                         \
            }                                                                                                                            \
        }                                                                                                                                \
    }                                                                                                                                    \
    FOR_EACH_PROCESSOR static void from_planes##BITS(const Task *task, const uint8_t *const *planes, uint8_t *to) {                      \
        int of_float = task->form >= FLOAT8 && task->form <= FLOAT64;                                                                    \
        U##BITS x[CHUNK], p[CHUNK];                                                                                                      \
        for (size_t at = 0; at < task->count; at += CHUNK) {                                                                             \
            size_t n = task->count - at < CHUNK ? task->count - at : CHUNK;                                                              \
            for (size_t i = 0; i < n; i++) x[i] = planes[0][at + i];                                                                     \
            for (int k = 1; k < BITS / 8; k++) {                                                                                         \
                const uint8_t *plane = planes[k] + at;                                                                                   \
                for (size_t i = 0; i < n; i++) x[i] = (U##BITS)((U##BITS)(x[i] << (8 % BITS)) | plane[i]);                               \
            }                                                                                                                            \
            if (task->predictor != NONE) {                                                                                               \
                guess##BITS(task, at, n, p);                                                                                             \
                for (size_t i = 0; i < n; i++) x[i] = (U##BITS)(x[i] >> 1) ^ (U##BITS)((U##BITS)0 - (U##BITS)(x[i] & 1));                \
                if (of_float)                                                                                                            \
                    for (size_t i = 0; i < n; i++) x[i] = unordered##BITS((U##BITS)(ordered##BITS(p[i]) + x[i]));                        \
                else                                                                                                                     \
                    for (size_t i = 0; i < n; i++) x[i] = (U##BITS)(x[i] + p[i]);                                                        \
            } else if (of_float) {                                                                                                       \
                for (size_t i = 0; i < n; i++) x[i] = unrotated##BITS(x[i]);                                                             \
            }                                                                                                                            \
            memcpy(to + sizeof(U##BITS) * at, x, sizeof(U##BITS) * n);                                                                   \
        }                                                                                                                                \
    }

OF_WIDTH(8)
OF_WIDTH(16)
OF_WIDTH(32)
OF_WIDTH(64)

/* Fill ``task`` from (form, predictor, bases, forms of bases, parameters); ``held`` are buffers to release. 0, or -1 with an error set. */
static int task_of(Task *task, PyObject *bases, PyObject *forms, PyObject *parameters, Py_buffer *held, int *held_count) {
    *held_count = 0;
    if (task->form < 0 || task->form > 8 || task->predictor < NONE || task->predictor > MOMENTUM) {
        PyErr_SetString(PyExc_ValueError, "no such form or predictor");
        return -1;
    }
    if (PyTuple_Size(bases) != BASES[task->predictor] || PyTuple_Size(forms) != BASES[task->predictor] ||
        PyTuple_Size(parameters) != PARAMETERS[task->predictor]) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "bases or parameters do not fit the predictor");
        return -1;
    }
    for (int k = 0; k < PARAMETERS[task->predictor]; k++) task->parameters[k] = (float)PyFloat_AsDouble(PyTuple_GetItem(parameters, k));
    for (int k = 0; k < BASES[task->predictor]; k++) task->base_forms[k] = (int)PyLong_AsLong(PyTuple_GetItem(forms, k));
    if (PyErr_Occurred()) return -1;
    for (int k = 0; k < BASES[task->predictor]; k++) {
        int form = task->base_forms[k], same = task->predictor == PREVIOUS && form == task->form;
        int computed = task->predictor != PREVIOUS && (form == BFLOAT16 || form == FLOAT32) && (task->form == BFLOAT16 || task->form == FLOAT32);
        if (!same && !computed) {
            PyErr_SetString(PyExc_ValueError, "these forms are computed elsewhere");
            return -1;
        }
        if (PyObject_GetBuffer(PyTuple_GetItem(bases, k), &held[k], PyBUF_SIMPLE)) return -1;
        *held_count = k + 1;
        if ((size_t)held[k].len / WIDTHS[form] < task->count) {
            PyErr_SetString(PyExc_ValueError, "a base is too short");
            return -1;
        }
        task->bases[k] = held[k].buf;
    }
    return 0;
}

static void release(Py_buffer *held, int count) {
    for (int k = 0; k < count; k++) PyBuffer_Release(&held[k]);
}

static PyObject *to_planes(PyObject *self, PyObject *arguments) {
    Task task = {0};
    Py_buffer held[MAX_BASES], from, to;
    PyObject *bases, *forms, *parameters;
    int count = 0, good = 0;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "y*iiO!O!O!w*", &from, &task.form, &task.predictor, &PyTuple_Type, &bases, &PyTuple_Type, &forms,
                          &PyTuple_Type, &parameters, &to))
        return NULL;
    if (task.form >= 0 && task.form <= 8) task.count = from.len / WIDTHS[task.form];
    if (task_of(&task, bases, forms, parameters, held, &count) == 0) {
        int width = WIDTHS[task.form];
        if ((size_t)to.len != task.count * width) {
            PyErr_SetString(PyExc_ValueError, "the planes have another size than the elements");
        } else {
            uint8_t *planes[MAX_WIDTH];
            for (int k = 0; k < width; k++) planes[k] = (uint8_t *)to.buf + k * task.count;
            Py_BEGIN_ALLOW_THREADS
            switch (width) {
            case 1: to_planes8(&task, from.buf, planes); break;
            case 2: to_planes16(&task, from.buf, planes); break;
            case 4: to_planes32(&task, from.buf, planes); break;
            default: to_planes64(&task, from.buf, planes);
            }
            Py_END_ALLOW_THREADS
            good = 1;
        }
    }
    release(held, count);
    PyBuffer_Release(&from);
    PyBuffer_Release(&to);
    if (!good) return NULL;
    Py_RETURN_NONE;
}

static PyObject *from_planes(PyObject *self, PyObject *arguments) {
    Task task = {0};
    Py_buffer held[MAX_BASES], runs[MAX_WIDTH], to;
    PyObject *planes, *bases, *forms, *parameters;
    const uint8_t *views[MAX_WIDTH];
    Py_ssize_t elements;
    int count = 0, got = 0, width, good = 0;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "O!niiO!O!O!w*", &PyTuple_Type, &planes, &elements, &task.form, &task.predictor, &PyTuple_Type, &bases,
                          &PyTuple_Type, &forms, &PyTuple_Type, &parameters, &to))
        return NULL;
    task.count = (size_t)elements;
    if (elements < 0 || elements > PY_SSIZE_T_MAX / 16) {
        PyErr_SetString(PyExc_ValueError, "no such number of elements");
    } else if (task_of(&task, bases, forms, parameters, held, &count) == 0) {
        width = WIDTHS[task.form];
        if (PyTuple_Size(planes) != width) PyErr_SetString(PyExc_ValueError, "one plane for each byte of an element");
        while (!PyErr_Occurred() && got < width && PyObject_GetBuffer(PyTuple_GetItem(planes, got), &runs[got], PyBUF_SIMPLE) == 0) {
            views[got] = runs[got].buf;
            if (runs[got++].len != elements) PyErr_SetString(PyExc_ValueError, "a plane has another size than the elements");
        }
        if (!PyErr_Occurred() && to.len != elements * width)
            PyErr_SetString(PyExc_ValueError, "the elements have another size than the planes");
        if (!PyErr_Occurred()) {
            Py_BEGIN_ALLOW_THREADS
            switch (width) {
            case 1: from_planes8(&task, views, to.buf); break;
            case 2: from_planes16(&task, views, to.buf); break;
            case 4: from_planes32(&task, views, to.buf); break;
            default: from_planes64(&task, views, to.buf);
            }
            Py_END_ALLOW_THREADS
            good = 1;
        }
    }
    release(runs, got);
    release(held, count);
    PyBuffer_Release(&to);
    if (!good) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef METHODS[] = {
    {"to_planes", to_planes, METH_VARARGS, "to_planes(data, form, predictor, bases, forms, parameters, out): see kernels.py."},
    {"from_planes", from_planes, METH_VARARGS,
     "from_planes(planes, count, form, predictor, bases, forms, parameters, out): see kernels.py."},
    {NULL, NULL, 0, NULL},
};
static PyModuleDef_Slot SLOTS[] = {{0, NULL}};
static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_kernels", NULL, 0, METHODS, SLOTS, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit__kernels(void) { return PyModuleDef_Init(&MODULE); }

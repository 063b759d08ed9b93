/* Symbols of ELF files: where a name is, and what lies at an address. Every offset of a file is checked against its size. */
#include "module.h"
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    const uint8_t *data;
    size_t bytes;
    const Elf64_Ehdr *head;
} elf_file;

static bool inside(const elf_file *file, uint64_t offset, uint64_t bytes)
{
    return offset <= file->bytes && bytes <= file->bytes - offset;
}

static void elf_close(elf_file *file)
{
    if (file->data) munmap((void *)file->data, file->bytes);
}

/* Maps a file; sets OSError, or ValueError where it is no ELF file of 64 bits of this byte order. */
static bool elf_open(elf_file *file, const char *path)
{
    struct stat about;
    *file = (elf_file){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &about) < 0) {
        PyErr_SetFromErrnoWithFilename(PyExc_OSError, path);
        if (fd >= 0) close(fd);
        return false;
    }
    file->bytes = S_ISREG(about.st_mode) ? (size_t)about.st_size : 0;
    void *data = file->bytes >= sizeof(Elf64_Ehdr) ? mmap(NULL, file->bytes, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    if (data != MAP_FAILED) {
        file->data = data;
        file->head = data;
        const unsigned char *id = file->head->e_ident;
        if (!memcmp(id, ELFMAG, SELFMAG) && id[EI_CLASS] == ELFCLASS64 && id[EI_DATA] == ELFDATA2LSB) return true;
        if (!memcmp(id, ELFMAG, SELFMAG) && id[EI_CLASS] == ELFCLASS32) PyErr_Format(PyExc_ValueError, "'%s' is a 32-bit program", path);
    }
    if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "'%s' is no ELF file that we can read", path);
    elf_close(file);
    return false;
}

typedef struct {
    const Elf64_Sym *symbols;
    uint64_t count;
    const char *names;
    uint64_t name_bytes;
} symbol_table;

/* The next table of symbols from section `*index` on. */
static bool next_table(const elf_file *file, unsigned *index, symbol_table *table)
{
    const Elf64_Ehdr *head = file->head;
    if (head->e_shentsize != sizeof(Elf64_Shdr) || !inside(file, head->e_shoff, (uint64_t)head->e_shnum * sizeof(Elf64_Shdr)) ||
        head->e_shoff % 8) return false;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(file->data + head->e_shoff);
    while (*index < head->e_shnum) {
        const Elf64_Shdr *section = &sections[(*index)++];
        if ((section->sh_type != SHT_SYMTAB && section->sh_type != SHT_DYNSYM) || section->sh_link >= head->e_shnum) continue;
        const Elf64_Shdr *strings = &sections[section->sh_link];
        if (!inside(file, section->sh_offset, section->sh_size) || !inside(file, strings->sh_offset, strings->sh_size) ||
            section->sh_offset % 8) continue;
        *table = (symbol_table){(const Elf64_Sym *)(file->data + section->sh_offset), section->sh_size / sizeof(Elf64_Sym),
                                (const char *)file->data + strings->sh_offset, strings->sh_size};
        return true;
    }
    return false;
}

static const char *name_of(const symbol_table *table, const Elf64_Sym *symbol)
{
    if (symbol->st_name >= table->name_bytes) return NULL;
    const char *name = table->names + symbol->st_name;
    return memchr(name, 0, table->name_bytes - symbol->st_name) ? name : NULL;
}

static bool add_segments(PyObject *to, const elf_file *file)
{
    const Elf64_Ehdr *head = file->head;
    if (head->e_phentsize != sizeof(Elf64_Phdr) || !inside(file, head->e_phoff, (uint64_t)head->e_phnum * sizeof(Elf64_Phdr)) ||
        head->e_phoff % 8) return true;
    const Elf64_Phdr *all = (const Elf64_Phdr *)(file->data + head->e_phoff);
    for (unsigned k = 0; k < head->e_phnum; k++) {
        if (all[k].p_type != PT_LOAD) continue;
        PyObject *item = Py_BuildValue("KKK", all[k].p_offset, all[k].p_vaddr, all[k].p_filesz);
        bool ok = item && PyList_Append(to, item) == 0;
        Py_XDECREF(item);
        if (!ok) return false;
    }
    return true;
}

/* elf_symbols(path, names) -> ({name: address}, [(file offset, address, bytes) of each loaded segment], machine) */
PyObject *elf_symbols(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *path, *names, *found = NULL, *segments = NULL;
    if (!PyArg_ParseTuple(args, "O&O!", PyUnicode_FSConverter, &path, &PyTuple_Type, &names)) return NULL;
    elf_file file;
    if (!elf_open(&file, PyBytes_AS_STRING(path))) {
        Py_DECREF(path);
        return NULL;
    }
    Py_DECREF(path);
    found = PyDict_New();
    segments = PyList_New(0);
    bool ok = found && segments && add_segments(segments, &file);
    Py_ssize_t wanted = PyTuple_GET_SIZE(names);
    symbol_table table;
    for (unsigned index = 0; ok && PyDict_GET_SIZE(found) < wanted && next_table(&file, &index, &table);)
        for (uint64_t k = 0; ok && k < table.count; k++) {
            const Elf64_Sym *symbol = &table.symbols[k];
            const char *name = symbol->st_shndx == SHN_UNDEF || !symbol->st_value ? NULL : name_of(&table, symbol);
            if (!name || (name[0] != '_' && name[0] != 'P')) continue;
            for (Py_ssize_t j = 0; ok && j < wanted; j++) {
                const char *each = PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, j));
                ok = each != NULL;
                if (!ok || strcmp(each, name)) continue;
                PyObject *value = PyLong_FromUnsignedLongLong(symbol->st_value);
                ok = value && PyDict_SetItemString(found, name, value) == 0;
                Py_XDECREF(value);
            }
        }
    int machine = file.head->e_machine;
    elf_close(&file);
    PyObject *result = ok ? Py_BuildValue("OOi", found, segments, machine) : NULL;
    Py_XDECREF(found);
    Py_XDECREF(segments);
    return result;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* elf_nearest(path, addresses) -> {address: name of the function that it lies in}; addresses as in the file, those in none are left out */
PyObject *elf_nearest(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *path, *list, *found = NULL;
    if (!PyArg_ParseTuple(args, "O&O!", PyUnicode_FSConverter, &path, &PyList_Type, &list)) return NULL;
    Py_ssize_t count = PyList_GET_SIZE(list);
    uint64_t *wanted = calloc((size_t)count + 1, sizeof *wanted), *starts = calloc((size_t)count + 1, sizeof *starts);
    const char **names = calloc((size_t)count + 1, sizeof *names);
    elf_file file = {0};
    bool ok = wanted && starts && names;
    if (!ok) PyErr_NoMemory();
    for (Py_ssize_t k = 0; ok && k < count; k++) {
        wanted[k] = PyLong_AsUnsignedLongLong(PyList_GET_ITEM(list, k));
        ok = !PyErr_Occurred();
    }
    ok = ok && elf_open(&file, PyBytes_AS_STRING(path));
    if (ok) qsort(wanted, (size_t)count, sizeof *wanted, by_value);
    symbol_table table;
    for (unsigned index = 0; ok && next_table(&file, &index, &table);)
        for (uint64_t k = 0; k < table.count; k++) {
            const Elf64_Sym *symbol = &table.symbols[k];
            unsigned type = ELF64_ST_TYPE(symbol->st_info);
            if (symbol->st_shndx == SHN_UNDEF || !symbol->st_value || (type != STT_FUNC && type != STT_GNU_IFUNC)) continue;
            Py_ssize_t low = 0, high = count;
            while (low < high) {                /* the first address not below the symbol */
                Py_ssize_t middle = (low + high) / 2;
                if (wanted[middle] < symbol->st_value) low = middle + 1;
                else high = middle;
            }
            uint64_t end = symbol->st_value + (symbol->st_size ? symbol->st_size : 1);
            for (; low < count && wanted[low] < end; low++) {
                const char *name = name_of(&table, symbol);
                if (!name || (names[low] && starts[low] >= symbol->st_value)) continue;
                names[low] = name;
                starts[low] = symbol->st_value;
            }
        }
    found = ok ? PyDict_New() : NULL;
    for (Py_ssize_t k = 0; found && k < count; k++) {
        if (!names[k]) continue;
        PyObject *key = PyLong_FromUnsignedLongLong(wanted[k]), *name = PyUnicode_DecodeUTF8(names[k], (Py_ssize_t)strlen(names[k]), "replace");
        if (!key || !name || PyDict_SetItem(found, key, name) < 0) Py_CLEAR(found);
        Py_XDECREF(key);
        Py_XDECREF(name);
    }
    elf_close(&file);
    free(wanted);
    free(starts);
    free(names);
    Py_DECREF(path);
    return found;
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// order is the list of the folders at the top, lowest first. A folder may import those of the lines before its own. Programs
// that workers run, the wire contract and embedded files know at most the vocabulary.
var order = [][]string{
	{"proto", "assets"}, {"messages"}, {"sdk", "packs"}, {"rules"}, {"store"}, {"broker"}, {"process"}, {"runtime"}, {"pack"}, {"actors"}, {"supervisor"}, {"peers"},
	{"operate"}, {"api", "debug"}, {"node"}, {"."}, {"embedded"}, {"pgtx"}, {"cmd"},
}

// head is the folder at the top that a folder stands in.
func head(folder string) string {
	first, _, _ := strings.Cut(folder, "/")
	return first
}

func rank(folder string) int {
	return slices.IndexFunc(order, func(line []string) bool { return slices.Contains(line, head(folder)) })
}

// folders are the measures of folders and of what they import.
func (h *house) folders() []row {
	files, lines := map[string]int{}, map[string]int{}
	imports := map[string]map[string]bool{} // folder at the top: those that it imports
	up := map[string]bool{}
	fan := map[string]map[string]bool{} // package: the packages that it imports
	for _, f := range h.files {
		from := head(f.folder)
		files[from]++
		lines[from] += f.lines
		for _, to := range f.imports {
			put(fan, f.folder, to)
			if from == head(to) {
				continue
			}
			put(imports, from, head(to))
			if rank(to) >= rank(f.folder) {
				up[f.folder+" → "+to] = true
			}
		}
	}
	var each []string
	for _, line := range order {
		for _, folder := range line {
			if files[folder] > 0 {
				each = append(each, fmt.Sprintf("`%s` %d (%s)", folder, files[folder], thousands(lines[folder])))
			}
		}
	}
	widest := slices.MaxFunc(slices.Sorted(maps.Keys(fan)), func(a, b string) int { return len(fan[a]) - len(fan[b]) })
	most := slices.MaxFunc(slices.Sorted(maps.Keys(perFolder(h.files))), func(a, b string) int {
		return perFolder(h.files)[a] - perFolder(h.files)[b]
	})
	return []row{
		{"folders at the top: files (lines)", strings.Join(each, ", ")},
		{"packages", fmt.Sprint(len(perFolder(h.files)))},
		{"most files in one package", fmt.Sprintf("`%s` %d", most, perFolder(h.files)[most])},
		{"most packages of ours that one package imports", fmt.Sprintf("`%s` %d", widest, len(fan[widest]))},
		{"imports against the list of folders", list(slices.Sorted(maps.Keys(up)))},
		{"circles of folders at the top", list(circles(imports))},
	}
}

func put(sets map[string]map[string]bool, key, value string) {
	if sets[key] == nil {
		sets[key] = map[string]bool{}
	}
	sets[key][value] = true
}

func perFolder(files []file) map[string]int {
	count := map[string]int{}
	for _, f := range files {
		count[f.folder]++
	}
	return count
}

// circles are the sets of folders that reach each other by imports.
func circles(imports map[string]map[string]bool) []string {
	reach := map[string]map[string]bool{}
	var walk func(from, at string)
	walk = func(from, at string) {
		for to := range imports[at] {
			if !reach[from][to] {
				put(reach, from, to)
				walk(from, to)
			}
		}
	}
	for folder := range imports {
		walk(folder, folder)
	}
	found := map[string]bool{}
	for folder := range imports {
		var members []string
		for other := range reach[folder] {
			if reach[other][folder] {
				members = append(members, "`"+other+"`")
			}
		}
		if len(members) > 1 {
			slices.Sort(members)
			found[strings.Join(members, " ↔ ")] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func list(items []string) string {
	if len(items) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d: %s", len(items), strings.Join(items, ", "))
}

// clients are the packages that programs of others import; not every checkout has each of them.
var clients = []string{".", "embedded", "pgtx"}

// links counts what a program links that imports one of the clients, with the standard library.
func links(ctx context.Context, root, module string) ([]row, error) {
	var rows []row
	for _, folder := range clients {
		r := row{name: fmt.Sprintf("packages that a program links with `%s` (of them ours)", folder), value: "—"}
		if found, err := filepath.Glob(filepath.Join(root, folder, "*.go")); err == nil && len(found) > 0 {
			cmd := exec.CommandContext(ctx, "go", "list", "-deps", "./"+folder)
			cmd.Dir, cmd.Stderr = root, os.Stderr
			out, err := cmd.Output()
			if err != nil {
				return nil, fmt.Errorf("list what %s links: %w", folder, err)
			}
			all := strings.Fields(string(out))
			ours := slices.DeleteFunc(slices.Clone(all), func(p string) bool { return !strings.HasPrefix(p, module) })
			r.value = fmt.Sprintf("%d (%d)", len(all), len(ours))
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// byFolder counts files for each folder that they stand in.
func byFolder(files []string) string {
	count := map[string]int{}
	for _, f := range files {
		count[filepath.Dir(f)]++
	}
	names := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(count[b]-count[a], strings.Compare(a, b))
	})
	for i, n := range names {
		names[i] = fmt.Sprintf("`%s` %d", n, count[n])
	}
	return strings.Join(names, ", ")
}

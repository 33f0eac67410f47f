package memory

import (
	"bytes"
	"encoding/json"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"helix/backend/memory/importer"
	"helix/backend/memory/search"
)

// importURI names a file of an import as a document. A file has its name from its place; the
// files of an archive are known by their names in it, wherever the archive lies.
func importURI(o *importOptions, r *importer.Reader, d *importer.Document) string {
	base := d.Source + ":"
	switch {
	case r.Archive():
		base += d.Path
	case o.Path != "" && r.Folder():
		base = folderURI(o, d.Source) + escapePath(d.Path)
	case o.Name != "":
		base += o.Name
	case o.Path != "":
		base = fileURI(o.Path)
	default:
		base += o.Blob
	}
	if d.Part > 0 {
		base += "#" + strconv.Itoa(d.Part+1)
	}
	return base
}

// noFolder is the name of an upload of several files that have no folder in common.
const noFolder = "."

// folderURI is what the URIs of the files of a folder begin with. A folder that was uploaded is
// known by its name, wherever its copy lies; files without a common folder by theirs.
func folderURI(o *importOptions, source string) string {
	switch o.Name {
	case noFolder:
		return source + ":"
	case "":
	default:
		return source + ":" + escapePath(o.Name) + "/"
	}
	return strings.TrimSuffix(fileURI(o.Path), "/") + "/"
}

// escapePath is a relative path as it stands in a URI.
func escapePath(p string) string {
	return strings.TrimPrefix((&url.URL{Path: "/" + p}).EscapedPath(), "/")
}

// fileURI is the URI of an absolute path; a # in a name is escaped.
func fileURI(file string) string {
	file = filepath.ToSlash(file)
	if !strings.HasPrefix(file, "/") {
		file = "/" + file
	}
	return (&url.URL{Scheme: "file", Path: file}).String()
}

// nameOfURI is the path below base of a document's file, and which part of it the document
// is, from 0.
func nameOfURI(uri, base string) (name string, part int) {
	name, number, _ := strings.Cut(strings.TrimPrefix(uri, base), "#")
	if n, err := strconv.Atoi(number); err == nil {
		part = n - 1
	}
	if plain, err := url.PathUnescape(name); err == nil {
		name = plain
	}
	return name, part
}

// nameOf is the name of the file that a record stands in.
func nameOf(o *importOptions, entry string) string {
	switch {
	case entry != "":
		return path.Base(entry)
	case o.Name != "":
		return o.Name
	case o.Path != "":
		return filepath.Base(o.Path)
	}
	return o.Blob
}

// mergeTags are those of the import and those of the record, at most 16, in order.
func mergeTags(record, all []string) []string {
	out := slices.Clone(all)
	for _, t := range record {
		if t = search.NormalTag(t); t != "" && !slices.Contains(out, t) && len(out) < maxTags {
			out = append(out, t)
		}
	}
	slices.Sort(out)
	return out
}

// listJSON is a list of texts; none is [].
func listJSON(list []string) json.RawMessage {
	if list == nil {
		list = []string{}
	}
	return compactJSON(list)
}

// compactJSON writes what holds only maps, lists, texts, numbers and times.
func compactJSON(v any) json.RawMessage {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return json.RawMessage(`{}`)
	}
	return bytes.TrimSpace(buf.Bytes())
}

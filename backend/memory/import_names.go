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

// importURI returns the document URI of a file in an import. A file on disk is identified by its
// path, a file in an archive by its name in the archive, wherever the archive is.
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

// noFolder is the name of an upload of several files without a common folder.
const noFolder = "."

// folderURI returns the common prefix of the URIs of the files in a folder. An uploaded folder is
// identified by its name, wherever its copy is; files without a common folder by their own names.
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

// escapePath returns a relative path as it appears in a URI.
func escapePath(p string) string {
	return strings.TrimPrefix((&url.URL{Path: "/" + p}).EscapedPath(), "/")
}

// fileURI returns the URI of an absolute path. A # in a name is escaped.
func fileURI(file string) string {
	file = filepath.ToSlash(file)
	if !strings.HasPrefix(file, "/") {
		file = "/" + file
	}
	return (&url.URL{Scheme: "file", Path: file}).String()
}

// nameOfURI returns the path of a document's file below base, and which part of that file the
// document is, starting at 0.
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

// nameOf returns the name of the file that contains a record.
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

// mergeTags returns the tags of the record and of the import, sorted, at most 16.
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

// listJSON encodes a list of strings; an empty list is [].
func listJSON(list []string) json.RawMessage {
	if list == nil {
		list = []string{}
	}
	return compactJSON(list)
}

// compactJSON encodes a value that contains only maps, lists, strings, numbers and times.
func compactJSON(v any) json.RawMessage {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return json.RawMessage(`{}`)
	}
	return bytes.TrimSpace(buf.Bytes())
}

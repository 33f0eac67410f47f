package coretools

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/sandbox/rootfs"
)

// Limits of reading, listing and searching.
const (
	maxHashed    = 64 << 20  // bytes of a file that is read completely
	maxText      = 256 << 10 // bytes of text that one call returns
	maxLines     = 2000
	maxFolder    = 20_000 // entries of one folder
	maxVisited   = 50_000 // entries of a folder and everything below it
	maxDepth     = 64
	maxListed    = 1000
	maxHits      = 200
	maxSearched  = 4 << 20   // bytes of a file that is searched
	maxSearchAll = 256 << 20 // bytes of all files that are searched
	maxLine      = 64 << 10  // bytes of a line that is searched
	maxShown     = 500       // bytes of a line in a result
	walkTime     = 10 * time.Second
)

const pathSchema = `"path":{"type":"string","minLength":1,"maxLength":4096,"description":"/shared/… and /tmp/… are the workspace; /vault/… and absolute paths of this computer need permission."}`

var readOnly = callable.Effects{ReadOnly: true, Idempotent: true}

const readCapability = "filesystem:read(the path)"

func (s *Service) readTool() callable.Func {
	info := callable.Info{
		Name: "file.read", Title: "Reads a file.", Effects: readOnly, Capabilities: []string{readCapability}, Untrusted: true,
		Description: "Reads a text file, or a range of its lines, with its size and hash. file.edit needs the hash. A file that is not text is named with its type instead. Use file.list for folders.",
		Input: object(`"path"`, pathSchema+`,
			"fromLine":{"type":"integer","minimum":1,"description":"First line to read, from 1."},
			"lines":{"type":"integer","minimum":1,"maximum":2000,"description":"How many lines to read. Default: 2000."},
			"fromByte":{"type":"integer","minimum":0,"description":"Read from this byte on instead, for a file with very long lines."}`),
		Output: output(`"path","bytes","binary","text"`, `"path":{"type":"string"},"text":{"type":"string"},"binary":{"type":"boolean"},"contentType":{"type":"string"},
			"bytes":{"type":"integer"},"hash":{"type":"string","description":"SHA-256 of the file."},"modified":{"type":"string","format":"date-time"},
			"fromLine":{"type":"integer"},"toLine":{"type":"integer"},"totalLines":{"type":"integer"},
			"truncated":{"type":"boolean","description":"There is more after the text."},"nextByte":{"type":"integer","description":"Where the rest begins."}`),
	}
	return callable.Func{Info: info, Rights: s.readRights(info, false), Run: callable.Typed(s.readFile)}
}

type readInput struct {
	Path     string
	FromLine int
	Lines    int
	FromByte *int64
}

type fileText struct {
	Path        string    `json:"path"`
	Text        string    `json:"text"`
	Binary      bool      `json:"binary"`
	ContentType string    `json:"contentType,omitempty"`
	Bytes       int64     `json:"bytes"`
	Hash        string    `json:"hash,omitempty"`
	Modified    time.Time `json:"modified"`
	FromLine    int       `json:"fromLine,omitempty"`
	ToLine      int       `json:"toLine,omitempty"`
	TotalLines  int       `json:"totalLines,omitempty"`
	Truncated   bool      `json:"truncated"`
	NextByte    int64     `json:"nextByte,omitempty"`
}

func (s *Service) readFile(ctx context.Context, c callable.Request, in readInput) (any, error) {
	r, err := s.read(ctx, &c, in.Path, false, permission.ReadOnly)
	if err != nil {
		return nil, err
	}
	defer r.end()
	file, info, err := r.files.Open(r.real)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info.IsDir() {
		return nil, fault.Invalidf("%s is a folder. List it with file.list.", r.text)
	}
	out := fileText{Path: r.text, Bytes: info.Size(), Modified: info.ModTime().UTC(), FromLine: max(in.FromLine, 1)}
	head := make([]byte, 8<<10)
	n, err := file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fileError(err)
	}
	if out.Binary = bytes.IndexByte(head[:n], 0) >= 0; out.Binary {
		out.ContentType, out.FromLine = http.DetectContentType(head[:n]), 0
	}
	from := int64(-1)
	if in.FromByte != nil {
		from, out.FromLine = *in.FromByte, 0
	}
	return out, out.fill(ctx, file, from, cmp.Or(in.Lines, maxLines))
}

// Load reads a file of any type as the call r, if it is permitted and the file has at most most bytes.
func (s *Service) Load(ctx context.Context, r callable.Request, path string, most int64) ([]byte, error) {
	at, err := s.read(ctx, &r, path, false, permission.ReadOnly)
	if err != nil {
		return nil, err
	}
	defer at.end()
	file, info, err := at.files.Open(at.real)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	switch {
	case info.IsDir():
		return nil, fault.Invalidf("%s is a folder.", at.text)
	case info.Size() > most:
		return nil, fault.Limitf("%s has more than %d MB.", at.text, most>>20)
	}
	data, err := io.ReadAll(io.LimitReader(file, most))
	if err != nil {
		return nil, fileError(err)
	}
	return data, nil
}

// fill reads the file and keeps the requested part: some lines or, if from is not negative, the
// content from that byte on.
func (t *fileText) fill(ctx context.Context, file io.Reader, from int64, lines int) error {
	sum := sha256.New()
	in := bufio.NewReaderSize(io.TeeReader(io.LimitReader(file, maxHashed), sum), 64<<10)
	var text []byte
	var at int64
	for line, last := 1, byte('\n'); ; {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		part, err := in.ReadSlice('\n')
		if len(part) > 0 {
			if last == '\n' && at > 0 {
				line++
			}
			last, t.TotalLines = part[len(part)-1], line
			take := part
			switch {
			case t.Binary, from < 0 && (line < t.FromLine || line >= t.FromLine+lines):
				take = nil
			case from >= 0:
				take = part[min(int64(len(part)), max(0, from-at)):]
			}
			room := take[:min(len(take), maxText-len(text))]
			if len(room) > 0 {
				text, t.NextByte = append(text, room...), at+int64(len(part)-len(take)+len(room))
				if from < 0 {
					t.ToLine = line
				}
			}
		}
		at += int64(len(part))
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return fileError(err)
		}
	}
	if at == t.Bytes { // otherwise it is too large, or was modified meanwhile
		t.Hash = sumText(sum)
	} else {
		t.TotalLines = 0
	}
	for n := 1; n < utf8.UTFMax && n < len(text) && t.NextByte < t.Bytes; n++ { // a character that was split
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				text, t.NextByte = text[:len(text)-n], t.NextByte-int64(n)
			}
			break
		}
	}
	t.Text = strings.ToValidUTF8(string(text), "\uFFFD")
	if t.Truncated = !t.Binary && t.NextByte < t.Bytes && len(text) > 0; !t.Truncated {
		t.NextByte = 0
	}
	return nil
}

func sumText(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

func (s *Service) listTool() callable.Func {
	info := callable.Info{
		Name: "file.list", Title: "Lists a folder.", Effects: readOnly, Capabilities: []string{readCapability}, Untrusted: true,
		Description: "Lists files and folders with their sizes and times. To find the largest files of a folder, set recursive to true, sort to size and limit to how many you want.",
		Input: object(``, pathSchema+`,
			"recursive":{"type":"boolean","description":"Also list what is below. Default: false."},
			"name":{"type":"string","maxLength":200,"description":"Only names that match this pattern, such as *.txt."},
			"sort":{"enum":["name","size","modified"],"description":"size lists the largest first, modified the newest. Default: name."},
			"limit":{"type":"integer","minimum":1,"maximum":1000,"description":"Default: 200."}`),
		Output: output(`"path","entries","total","truncated"`, `"path":{"type":"string"},
			"entries":{"type":"array","items":{"type":"object","required":["path","kind"],"properties":{"path":{"type":"string"},"kind":{"enum":["file","folder"]},"bytes":{"type":"integer"},"modified":{"type":"string","format":"date-time"}}}},
			"total":{"type":"integer","description":"Entries that match, listed or not."},"bytes":{"type":"integer","description":"Size of the files that match."},
			"skipped":{"type":"integer","description":"Folders that could not be read."},"truncated":{"type":"boolean","description":"There is more that was not searched."}`),
	}
	return callable.Func{Info: info, Rights: s.readRights(info, true), Run: callable.Typed(s.listFiles)}
}

type listed struct {
	Path     string    `json:"path"`
	Kind     string    `json:"kind"`
	Bytes    int64     `json:"bytes"`
	Modified time.Time `json:"modified"`

	real string
}

func (s *Service) listFiles(ctx context.Context, c callable.Request, in struct {
	Path, Name, Sort string
	Recursive        bool
	Limit            int
}) (any, error) {
	if in.Path = cmp.Or(in.Path, "/"+shared); in.Path == "/" {
		in.Path = "/" + shared
	}
	v, err := s.visit(ctx, &c, in.Path, in.Name, in.Recursive)
	if err != nil {
		return nil, err
	}
	defer v.end()
	entries, size := []listed{}, int64(0)
	for e := range v.all {
		entries, size = append(entries, e), size+e.Bytes
	}
	slices.SortFunc(entries, func(a, b listed) int {
		switch in.Sort {
		case "size":
			return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Path, b.Path))
		case "modified":
			return cmp.Or(b.Modified.Compare(a.Modified), strings.Compare(a.Path, b.Path))
		}
		return strings.Compare(a.Path, b.Path)
	})
	if v.err != nil {
		return nil, v.err
	}
	return map[string]any{
		"path": v.text, "entries": entries[:min(len(entries), cmp.Or(in.Limit, 200))], "total": len(entries), "bytes": size, "skipped": v.skipped, "truncated": v.truncated,
	}, nil
}

// visit walks the files that a call may read.
type visit struct {
	*reading
	ctx       context.Context
	name      string // pattern for names; "": all
	recursive bool
	until     time.Time
	visited   int
	skipped   int   // folders that could not be or must not be read
	truncated bool  // a limit was reached
	err       error // why nothing could be read
}

func (s *Service) visit(ctx context.Context, c *callable.Request, text, name string, recursive bool) (*visit, error) {
	if _, err := path.Match(name, ""); err != nil {
		return nil, fault.Invalidf("The name pattern %.64q cannot be read.", name)
	}
	r, err := s.read(ctx, c, text, true, permission.ReadOnly)
	if err != nil {
		return nil, err
	}
	limit := walkTime
	if c.Timeout > 0 {
		limit = min(limit, c.Timeout*3/4)
	}
	return &visit{reading: r, ctx: ctx, name: name, recursive: recursive, until: time.Now().Add(limit)}, nil
}

// stop reports whether the walk must end.
func (v *visit) stop() bool {
	if v.ctx.Err() != nil {
		v.err = v.ctx.Err()
	} else if v.visited >= maxVisited || time.Now().After(v.until) {
		v.truncated = true
	}
	return v.err != nil || v.truncated
}

// all yields every matching entry, folder by folder.
func (v *visit) all(yield func(listed) bool) {
	type folder struct {
		place
		real  string
		depth int
	}
	for queue := []folder{{v.place, v.real, 0}}; len(queue) > 0; queue = queue[1:] {
		dir := queue[0]
		if v.stop() {
			return
		}
		var list []rootfs.Entry
		err := fs.ErrPermission
		if dir.depth == 0 || v.allows(dir.real) {
			list, err = v.files.List(dir.real, maxFolder)
		}
		if err != nil {
			if dir.depth == 0 {
				v.err = err
				return
			}
			v.skipped++
			continue
		}
		for _, e := range list {
			if v.visited++; v.stop() {
				return
			}
			if dir.area != "" && dir.rel == "." && strings.EqualFold(e.Name, trashName) {
				continue
			}
			p, real := dir.join(e.Name), filepath.Join(dir.real, e.Name)
			one := listed{Path: p.text, Kind: "file", Bytes: e.Size, Modified: e.Modified, real: real}
			if e.IsDir {
				one.Kind = "folder"
				if v.recursive && dir.depth < maxDepth {
					queue = append(queue, folder{p, real, dir.depth + 1})
				}
			}
			if ok, _ := path.Match(v.name, e.Name); (ok || v.name == "") && !yield(one) {
				return
			}
		}
	}
}

func (s *Service) searchTool() callable.Func {
	info := callable.Info{
		Name: "file.search", Title: "Searches files for text.", Effects: readOnly, Capabilities: []string{readCapability}, Untrusted: true,
		Description: "Finds lines in the text files of a folder and below it. The query is plain text, or a regular expression (RE2) when regexp is true. At most 200 hits.",
		Input: object(`"query"`, pathSchema+`,
			"query":{"type":"string","minLength":1,"maxLength":1000},
			"regexp":{"type":"boolean","description":"The query is a regular expression (RE2). Default: false."},
			"ignoreCase":{"type":"boolean","description":"Default: false."},
			"name":{"type":"string","maxLength":200,"description":"Only files whose names match this pattern, such as *.md."},
			"limit":{"type":"integer","minimum":1,"maximum":200,"description":"Default: 50."}`),
		Output: output(`"path","hits","files","truncated"`, `"path":{"type":"string"},
			"hits":{"type":"array","items":{"type":"object","required":["path","line","text"],"properties":{"path":{"type":"string"},"line":{"type":"integer"},"text":{"type":"string"}}}},
			"files":{"type":"integer","description":"Text files that were searched."},"skipped":{"type":"integer","description":"Files and folders that were not: not text, too large, or not readable."},
			"truncated":{"type":"boolean","description":"There may be more hits."}`),
	}
	return callable.Func{Info: info, Rights: s.readRights(info, true), Run: callable.Typed(s.searchFiles)}
}

type hit struct {
	Path string `json:"path"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

func (s *Service) searchFiles(ctx context.Context, c callable.Request, in struct {
	Path, Query, Name  string
	Regexp, IgnoreCase bool
	Limit              int
}) (any, error) {
	query := in.Query
	if !in.Regexp {
		query = regexp.QuoteMeta(query)
	}
	if in.IgnoreCase {
		query = "(?i)" + query
	}
	re, err := regexp.Compile(query)
	if err != nil {
		return nil, fault.Invalidf("The regular expression cannot be read: %s.", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	v, err := s.visit(ctx, &c, cmp.Or(in.Path, "/"+shared), in.Name, true)
	if err != nil {
		return nil, err
	}
	defer v.end()
	hits, files, read, limit := []hit{}, 0, int64(0), cmp.Or(in.Limit, 50)
	for e := range v.all {
		if e.Kind == "folder" {
			continue
		}
		if read >= maxSearchAll {
			v.truncated = true
			break
		}
		var text []byte
		if e.Bytes <= maxSearched && v.allows(e.real) {
			text, err = v.files.Read(e.real, maxSearched)
		} else {
			err = fs.ErrPermission
		}
		if err != nil || bytes.IndexByte(text[:min(len(text), 8<<10)], 0) >= 0 {
			v.skipped++
			continue
		}
		files, read = files+1, read+int64(len(text))
		n := 0
		for line := range bytes.Lines(text) {
			n++
			if v.stop() {
				break
			}
			line = bytes.TrimRight(line[:min(len(line), maxLine)], "\r\n")
			at := re.FindIndex(line)
			if at == nil {
				continue
			}
			from := 0
			if at[1] > maxShown { // show the match, not the beginning of a long line
				from = max(0, at[0]-maxShown/2)
			}
			hits = append(hits, hit{e.Path, n, strings.ToValidUTF8(string(line[from:min(len(line), from+maxShown)]), "\uFFFD")})
			if v.truncated = v.truncated || len(hits) == limit; v.truncated {
				break
			}
		}
		if v.truncated {
			break
		}
	}
	if v.err != nil {
		return nil, v.err
	}
	return map[string]any{"path": v.text, "hits": hits, "files": files, "skipped": v.skipped, "truncated": v.truncated}, nil
}

package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// headSize is the number of bytes of a text that are inspected to detect its format.
const headSize = 64 << 10

// sniff detects the format of a file from its content. It returns "" if the format is not supported.
func sniff(e entry) (string, error) {
	r, err := e.open()
	if err != nil {
		return "", err
	}
	defer r.Close()
	head, err := io.ReadAll(io.LimitReader(r, headSize))
	if err != nil && len(head) == 0 {
		return "", err
	}
	first := bytes.TrimLeft(bytes.TrimPrefix(head, bom), " \t\r\n")
	if len(first) > 0 && (first[0] == '[' || first[0] == '{') {
		format := sniffJSON(io.MultiReader(bytes.NewReader(head), r))
		if format == "" {
			format = sniffCut(first)
		}
		if format != "" || first[0] == '[' && json.Valid(first) {
			return format, nil
		}
	}
	return sniffText(head), nil
}

// keysOf lists the keys that identify the formats.
var keysOf = []struct {
	format string
	all    []string
}{
	{ChatGPT, []string{"mapping"}},
	{Claude, []string{"chat_messages"}},
	{LoCoMo, []string{"speaker_a"}},
	{LoCoMo, []string{"session_1"}},
	{LoCoMo, []string{"conversation", "sample_id"}},
	{LoCoMo, []string{"conversation", "qa"}},
	{JSONL, []string{"content"}},
	{JSONL, []string{"text"}},
}

// sniffJSON detects the format from the keys of the first records.
func sniffJSON(r io.Reader) string {
	e := newElements(r, "")
	for range 20 {
		raw, _, err := e.next()
		if errors.Is(err, errLong) {
			continue
		}
		if err != nil {
			return ""
		}
		var keys map[string]json.RawMessage
		if json.Unmarshal(raw, &keys) != nil {
			continue
		}
		for _, k := range keysOf {
			if slices.ContainsFunc(k.all, func(key string) bool { return keys[key] == nil }) {
				continue
			}
			if k.format == JSONL && e.state != atEnd { // an array of memories is not lines
				continue
			}
			return k.format
		}
		if e.state == atEnd {
			return ""
		}
	}
	return ""
}

// sniffCut detects the format of a file whose first record is damaged or too long, by searching for
// identifying keys.
func sniffCut(head []byte) string {
	if head[0] == '[' {
		rest := bytes.TrimLeft(head[1:], " \t\r\n")
		if len(rest) > 0 && rest[0] == ']' {
			return ChatGPT // an export without conversations
		}
	}
	best, at := "", len(head)
	for _, k := range keysOf[:4] {
		if i := bytes.Index(head, []byte(`"`+k.all[0]+`"`)); i >= 0 && i < at {
			best, at = k.format, i
		}
	}
	if best == "" && head[0] == '{' && beginsMemory(head) {
		return JSONL
	}
	if best == "" && head[0] == '{' && bytes.IndexByte(head, '\n') >= 0 {
		for _, l := range bytes.SplitN(head, []byte("\n"), 20) {
			var keys map[string]json.RawMessage
			if json.Unmarshal(l, &keys) == nil && (keys["content"] != nil || keys["text"] != nil) {
				return JSONL
			}
		}
	}
	return best
}

// beginsMemory reports whether a truncated object is a memory with a text, as far as it can be read.
func beginsMemory(head []byte) bool {
	d := json.NewDecoder(bytes.NewReader(head))
	if _, err := d.Token(); err != nil {
		return false
	}
	for {
		key, err := d.Token()
		if err != nil {
			return false
		}
		if key == "content" || key == "text" {
			return true
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return false
		}
	}
}

var markdownSigns = regexp.MustCompile(`(?m)\A---\r?\n|^#{1,6} \S|\[\[[^\]\n]+\]\]|^\s*[-*] \[[ xX]\] |\]\((https?:|[^)\s]+\.md)|^\x60\x60\x60`)

// sniffText distinguishes notes, plain text and binary data.
func sniffText(head []byte) string {
	if bytes.HasPrefix(head, []byte("\xFF\xFE")) || bytes.HasPrefix(head, []byte("\xFE\xFF")) {
		return Text // UTF-16
	}
	if len(head) == 0 {
		return Text
	}
	odd := 0
	for rest := head; len(rest) > 0; {
		c, n := utf8.DecodeRune(rest)
		if c == 0 {
			return ""
		}
		if (c == utf8.RuneError && n == 1 && len(rest) > utf8.UTFMax) || (c < ' ' && !strings.ContainsRune("\t\n\r\f\x1b", c)) {
			odd++
		}
		rest = rest[n:]
	}
	if odd*10 > len(head) {
		return ""
	}
	if markdownSigns.Match(head) {
		return Markdown
	}
	return Text
}

// extensions lists the file name extensions that each format reads in a folder or archive.
var extensions = map[string][]string{
	ChatGPT:  {".json"},
	Claude:   {".json"},
	LoCoMo:   {".json"},
	JSONL:    {".jsonl", ".ndjson"},
	Markdown: {".md", ".markdown"},
	Text:     {".txt", ".text"},
}

// importable reports whether any format reads files with this name.
func importable(name string) bool {
	return slices.ContainsFunc(Formats, func(f string) bool { return fits(name, f) })
}

func fits(name, format string) bool {
	return slices.Contains(extensions[format], strings.ToLower(path.Ext(name)))
}

// choose determines the format of a tree, unless it is given, and the entries of that format.
func choose(t *tree, format string) (string, []entry, error) {
	if t.one {
		if format == Auto {
			found, err := sniff(t.entries[0])
			return found, t.entries, err
		}
		return format, t.entries, nil
	}
	sniffed := map[string]string{}
	for _, e := range t.entries {
		if fits(e.name, ChatGPT) {
			found, err := sniff(e)
			if err != nil {
				t.problems = append(t.problems, Problem{File: e.name, Message: "This file cannot be read."})
				continue
			}
			sniffed[e.name] = found
		}
	}
	formats := []string{format}
	if format == Auto {
		formats = []string{ChatGPT, Claude, Markdown, JSONL, LoCoMo, Text}
	}
	for _, f := range formats {
		var chosen []entry
		for _, e := range t.entries {
			if found, ok := sniffed[e.name]; ok && found == f || !ok && fits(e.name, f) && !fits(e.name, ChatGPT) {
				chosen = append(chosen, e)
			}
		}
		if len(chosen) > 0 {
			return f, chosen, nil
		}
	}
	return "", nil, nil
}

package importer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
	"gopkg.in/yaml.v3"
)

// maxPart is the maximum size of a document. A longer text is divided, at the end of a paragraph if
// possible, so that each part can be stored quickly.
const maxPart = 256 << 10

// maxFront is the maximum size of the front matter of a note.
const maxFront = 64 << 10

// documents reads one text or note as one document or several parts.
type documents struct {
	r     io.Reader
	name  string
	doc   Document // the fields that all parts have
	zone  *time.Location
	buf   []byte
	end   error
	part  int
	skip  int    // number of parts that an earlier reader returned
	fence string // marker of the code block that is still open at the end of a part
}

func newDocuments(r io.Reader, format, name string, skip int, zone *time.Location) *documents {
	d := &documents{r: transform.NewReader(r, unicode.BOMOverride(transform.Nop)), name: name, zone: zone, skip: skip}
	d.doc = Document{Source: format, Path: name, Mime: "text/plain", Tags: []string{}, Aliases: []string{}, Links: []string{}}
	if format == Markdown {
		d.doc.Mime = "text/markdown"
	}
	d.doc.Title = line(strings.TrimSuffix(path.Base(name), path.Ext(name)))
	if at, err := time.ParseInLocation("2006-01-02", d.doc.Title, zone); err == nil { // a daily note
		d.doc.Date, _ = inYearRange(at)
	}
	return d
}

func (d *documents) next() (Record, error) {
	for {
		for d.end == nil && len(d.buf) <= maxPart {
			d.buf, d.end = more(d.r, d.buf)
		}
		if d.end != nil && !errors.Is(d.end, io.EOF) {
			return Record{}, d.end
		}
		if len(d.buf) == 0 {
			return Record{}, io.EOF
		}
		raw := d.buf[:partEnd(d.buf)]
		d.buf = d.buf[len(raw):]
		doc := d.document(raw)
		doc.Last = len(d.buf) == 0 && d.end != nil
		if d.part <= d.skip || strings.TrimSpace(doc.Text) == "" {
			continue
		}
		return Record{Document: doc, After: Position{Part: d.part}}, nil
	}
}

// partEnd returns the end of the next part: after the last blank line, line, word or character that fits.
func partEnd(buf []byte) int {
	if len(buf) <= maxPart {
		return len(buf)
	}
	head := buf[:maxPart]
	for _, sep := range []string{"\n\n", "\n", " "} {
		if i := bytes.LastIndex(head, []byte(sep)); i > maxPart/2 {
			return i + len(sep)
		}
	}
	end := maxPart
	for end > maxPart-utf8.UTFMax && !utf8.RuneStart(buf[end]) {
		end--
	}
	return end
}

// document returns one part as a document.
func (d *documents) document(raw []byte) *Document {
	text := plain(string(raw))
	if d.part == 0 && d.doc.Source == Markdown {
		text = d.front(text)
	}
	doc := d.doc
	doc.Part = d.part
	if d.part++; d.part > 1 {
		doc.Title = fmt.Sprintf("%s (%d)", doc.Title, d.part)
	}
	doc.Text = text
	if doc.Source == Markdown {
		doc.Tags, doc.Links = d.marks(text)
	}
	return &doc
}

// front parses the YAML front matter of a note and returns the rest. Front matter that is not valid
// YAML remains part of the text.
func (d *documents) front(text string) string {
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return text
	}
	end := strings.Index("\n"+rest, "\n---")
	if end < 0 || end > maxFront {
		return text
	}
	matter, body := rest[:max(end-1, 0)], rest[end+len("---"):]
	if end == 0 {
		matter = ""
	}
	if body != "" && body[0] != '\n' {
		return text
	}
	var fields map[string]yaml.Node
	if yaml.Unmarshal([]byte(matter), &fields) != nil {
		return text
	}
	for key, node := range fields {
		values := scalars(&node)
		switch strings.ToLower(key) {
		case "tags", "tag":
			if node.Kind == yaml.ScalarNode && len(values) == 1 {
				values = strings.FieldsFunc(values[0], func(r rune) bool { return r == ',' || r == ' ' })
			}
			d.doc.Tags = tidyTags(append(d.doc.Tags, values...))
		case "aliases", "alias":
			for _, v := range values {
				if v = line(v); v != "" && len(d.doc.Aliases) < maxTags && !slices.Contains(d.doc.Aliases, v) {
					d.doc.Aliases = append(d.doc.Aliases, v)
				}
			}
		case "title":
			if len(values) == 1 && line(values[0]) != "" {
				d.doc.Title = line(values[0])
			}
		}
	}
	for _, key := range []string{"date", "created", "created_at"} {
		node := fields[key]
		if v := scalars(&node); len(v) == 1 {
			if at, ok := parseTime(v[0], d.zone); ok {
				d.doc.Date = at
				break
			}
		}
	}
	return strings.TrimPrefix(body, "\n")
}

// scalars returns the values of a node that is a single value or a list of values.
func scalars(n *yaml.Node) []string {
	switch n.Kind {
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return nil
		}
		return []string{n.Value}
	case yaml.SequenceNode:
		var out []string
		for _, c := range n.Content {
			if c.Kind == yaml.ScalarNode && c.Tag != "!!null" {
				out = append(out, c.Value)
			}
		}
		return out
	}
	return nil
}

var (
	fenceLine  = regexp.MustCompile("^ {0,3}(```+|~~~+)")
	inlineCode = regexp.MustCompile("`[^`]*`")
	wikiLink   = regexp.MustCompile(`\[\[([^\]|#\n]+)[^\]\n]*\]\]`)
	inlineTag  = regexp.MustCompile(`(?:^|[\s(,;])#([\p{L}\p{N}_/-]*[\p{L}_/-][\p{L}\p{N}_/-]*)`)
)

// maxLinks is the maximum number of links kept for a note.
const maxLinks = 200

// marks returns the tags and links of a note, ignoring code.
func (d *documents) marks(text string) (tags, links []string) {
	tags, links = slices.Clone(d.doc.Tags), []string{}
	for row := range strings.Lines(text) {
		if m := fenceLine.FindStringSubmatch(row); m != nil {
			switch {
			case d.fence == "":
				d.fence = m[1]
			case strings.HasPrefix(m[1], d.fence):
				d.fence = ""
			}
		} else if d.fence == "" {
			collect(row, &tags, &links)
		}
	}
	return tidyTags(tags), links
}

func collect(row string, tags, links *[]string) {
	if !strings.ContainsAny(row, "#[") {
		return
	}
	row = inlineCode.ReplaceAllString(row, " ")
	for _, m := range wikiLink.FindAllStringSubmatch(row, -1) {
		if to := line(m[1]); to != "" && len(*links) < maxLinks && !slices.Contains(*links, to) {
			*links = append(*links, to)
		}
	}
	for _, m := range inlineTag.FindAllStringSubmatch(wikiLink.ReplaceAllString(row, " "), -1) {
		if len(*tags) < 4*maxTags {
			*tags = append(*tags, m[1])
		}
	}
}

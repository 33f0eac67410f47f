package coretools

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// markdown converts the readable part of a page at the address base to Markdown. The result
// contains no images and only http, https and mailto links, whatever is on the page: text that
// looks like markup is escaped.
func markdown(page, base string) (title, text string) {
	m := &mdWriter{skipped: []atom.Atom{atom.Nav, atom.Footer}}
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil { // too deeply nested
		m.text(plainText(page))
		return "", string(m.out)
	}
	m.base, _ = url.Parse(base)
	main := doc
	for n := range doc.Descendants() {
		switch n.DataAtom {
		case atom.Title:
			if title == "" && n.Namespace == "" {
				title = collapse(content(n))
			}
		case atom.Base:
			if u, err := m.resolve(attr(n, "href")); err == nil {
				m.base = u
			}
		case atom.Main:
			if main == doc {
				main = n
			}
		}
	}
	for _, from := range []*html.Node{main, doc, doc} {
		m.node(from)
		if len(m.out) > 0 {
			break
		}
		if from == doc { // only navigation
			m.skipped = nil
		}
	}
	return title, string(m.out)
}

// unread lists elements whose content is not text of the page.
var unread = []atom.Atom{
	atom.Head, atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Svg, atom.Math, atom.Iframe, atom.Object, atom.Embed, atom.Canvas, atom.Audio, atom.Video,
	atom.Select, atom.Button, atom.Textarea, atom.Input, atom.Dialog, atom.Frameset,
}

// paragraphs and blocks list elements that begin a paragraph or a line.
var (
	paragraphs = []atom.Atom{atom.P, atom.Section, atom.Article, atom.Figure, atom.Dl}
	blocks     = []atom.Atom{
		atom.P, atom.Div, atom.Section, atom.Article, atom.Main, atom.Header, atom.Footer, atom.Nav, atom.Aside, atom.Ul, atom.Ol, atom.Dl, atom.Dt, atom.Dd, atom.Figure, atom.Figcaption,
		atom.Table, atom.Tr, atom.Td, atom.Th, atom.Caption, atom.Form, atom.Fieldset, atom.Address, atom.Details, atom.Summary, atom.Center, atom.Body,
	}
)

// maxPrefix limits the indentation of quotes and lists.
const maxPrefix = 40

// mdWriter writes Markdown. Line breaks and spaces are written only when text follows.
type mdWriter struct {
	base    *url.URL
	skipped []atom.Atom

	out    []byte
	prefix string // of each line: quotes and the indents of lists
	lines  int    // line breaks before the next text
	space  bool
	marked int   // length of out after the last marker of a list item or quote
	lists  []int // number of the last item of each enclosing list; -1: not numbered
}

// gap begins a new line if n is 1 and a new paragraph if n is 2.
func (m *mdWriter) gap(n int) {
	m.lines = max(m.lines, n)
	m.space = m.space && n == 0
}

// raw writes markup.
func (m *mdWriter) raw(text string) {
	if m.marked == len(m.out) { // an item begins next to its marker
		m.lines = 0
	}
	if len(m.out) > 0 {
		for range m.lines {
			m.out = append(m.out, "\n"+m.prefix...)
		}
		if m.lines == 0 && m.space {
			m.out = append(m.out, ' ')
		}
	} else {
		m.out = append(m.out, m.prefix...)
	}
	m.lines, m.space = 0, false
	m.out = append(m.out, text...)
}

// text writes text of the page, escaping markup.
func (m *mdWriter) text(s string) {
	for i, word := range strings.Fields(s) {
		m.space = m.space || i > 0 || strings.TrimLeft(s, " \t\r\n\f") != s
		m.raw("")
		for _, r := range word {
			switch last := m.last(); {
			case r == '<', r == '`', r == '\\', r == '[' && last == '!', r == '(' && last == ']':
				m.out = append(m.out, '\\')
			}
			m.out = append(m.out, string(r)...)
		}
	}
	if strings.TrimRight(s, " \t\r\n\f") != s {
		m.space = true
	}
}

func (m *mdWriter) last() byte {
	if len(m.out) == 0 {
		return '\n'
	}
	return m.out[len(m.out)-1]
}

func (m *mdWriter) children(n *html.Node) {
	for c := range n.ChildNodes() {
		m.node(c)
	}
}

// node writes the visible content of n.
func (m *mdWriter) node(n *html.Node) {
	switch {
	case len(m.out) > 2*maxPage: // more than will be returned
		return
	case n.Type == html.TextNode:
		m.text(n.Data)
		return
	case n.Type != html.ElementNode:
		m.children(n)
		return
	case slices.Contains(unread, n.DataAtom) || slices.Contains(m.skipped, n.DataAtom) || hidden(n):
		return
	}
	switch n.DataAtom {
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		if title := collapse(content(n)); title != "" {
			m.gap(2)
			m.raw(strings.Repeat("#", int(n.Data[1]-'0')) + " ")
			m.text(title)
			m.gap(2)
		}
	case atom.Br:
		m.gap(1)
	case atom.Hr:
		m.gap(2)
		m.raw("---")
		m.gap(2)
	case atom.A:
		m.link(n)
	case atom.Img:
		m.text(" " + attr(n, "alt") + " ")
	case atom.Pre:
		m.code(n)
	case atom.Code, atom.Kbd, atom.Samp, atom.Tt:
		if text := collapse(content(n)); text != "" {
			fence := strings.Repeat("`", longest(text, '`')+1)
			if fence != "`" {
				text = " " + text + " "
			}
			m.raw(fence + text + fence)
		}
	case atom.Blockquote:
		m.indented("> ", "> ", n)
	case atom.Ul, atom.Ol:
		from := -1
		if n.DataAtom == atom.Ol {
			from = 0
		}
		m.gap(1)
		m.lists = append(m.lists, from)
		m.children(n)
		m.lists = m.lists[:len(m.lists)-1]
		m.gap(2 - min(1, len(m.lists)))
	case atom.Li:
		marker := "- "
		if k := len(m.lists) - 1; k >= 0 && m.lists[k] >= 0 {
			m.lists[k]++
			marker = strconv.Itoa(m.lists[k]) + ". "
		}
		m.gap(1)
		m.indented(marker, strings.Repeat(" ", len(marker)), n)
		m.lines = min(m.lines, 1)
	case atom.Table:
		if !m.table(n) {
			m.gap(2)
			m.children(n)
			m.gap(2)
		}
	default:
		gap := 0
		switch {
		case slices.Contains(paragraphs, n.DataAtom):
			gap = 2
		case slices.Contains(blocks, n.DataAtom):
			gap = 1
		}
		m.gap(gap)
		m.children(n)
		m.gap(gap)
	}
}

// indented writes the children of n after a marker, with a prefix for the following lines.
func (m *mdWriter) indented(marker, prefix string, n *html.Node) {
	if len(m.prefix) > maxPrefix || !hasText(n) {
		m.children(n)
		return
	}
	m.gap(1)
	m.raw(marker)
	m.marked = len(m.out)
	outer := m.prefix
	m.prefix += prefix
	m.children(n)
	m.prefix = outer
	m.gap(2)
}

// link writes a link with an absolute address, or only its text if the address is not allowed.
func (m *mdWriter) link(n *html.Node) {
	text, href := collapse(content(n)), strings.TrimSpace(attr(n, "href"))
	u, err := m.resolve(href)
	if err != nil || text == "" || len(text) > maxShown || href == "" || href[0] == '#' {
		m.children(n)
		return
	}
	if m.last() == '!' && m.lines == 0 { // otherwise it would be an image
		m.space = true
	}
	m.raw("[")
	m.text(strings.ReplaceAll(text, "]", ")"))
	m.raw("](" + linkEscapes.Replace(u.String()) + ")")
}

var linkEscapes = strings.NewReplacer("(", "%28", ")", "%29", "[", "%5B", "]", "%5D", " ", "%20", "<", "%3C", ">", "%3E", `\`, "%5C", "`", "%60")

func (m *mdWriter) resolve(href string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(href))
	if err != nil {
		return nil, err
	}
	if m.base != nil {
		u = m.base.ResolveReference(u)
	}
	if u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "mailto" || u.User != nil {
		return nil, url.InvalidHostError(href)
	}
	return u, nil
}

// code writes a block of code verbatim.
func (m *mdWriter) code(n *html.Node) {
	text := strings.Trim(content(n), "\r\n")
	if strings.TrimSpace(text) == "" {
		return
	}
	fence := strings.Repeat("`", max(3, longest(text, '`')+1))
	m.gap(2)
	m.raw(fence)
	for line := range strings.Lines(text + "\n" + fence) {
		m.gap(1)
		m.raw(strings.TrimRight(line, "\r\n"))
	}
	m.gap(2)
}

// table writes a data table, which has headers and no nested tables. It returns false for other tables.
func (m *mdWriter) table(n *html.Node) bool {
	data := false
	for d := range n.Descendants() {
		if d.DataAtom == atom.Table {
			return false
		}
		data = data || d.DataAtom == atom.Th
	}
	if !data {
		return false
	}
	m.gap(2)
	first := true
	for row := range n.Descendants() {
		if row.DataAtom != atom.Tr {
			continue
		}
		m.gap(1)
		cells := 0
		for cell := range row.ChildNodes() {
			if cell.DataAtom != atom.Td && cell.DataAtom != atom.Th {
				continue
			}
			cells++
			m.raw("| ")
			m.text(strings.ReplaceAll(collapse(content(cell)), "|", "/"))
			m.space = true
		}
		if cells > 0 {
			m.raw("|")
		}
		if first && cells > 0 {
			first = false
			m.gap(1)
			m.raw(strings.Repeat("|---", cells) + "|")
		}
	}
	m.gap(2)
	return true
}

// hidden reports whether an element is not visible.
func hidden(n *html.Node) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool {
		value := strings.ToLower(strings.Join(strings.Fields(a.Val), ""))
		return a.Key == "hidden" || a.Key == "aria-hidden" && value == "true" || a.Key == "style" && (strings.Contains(value, "display:none") || strings.Contains(value, "visibility:hidden"))
	})
}

func hasText(n *html.Node) bool {
	for d := range n.Descendants() {
		if d.Type == html.TextNode && strings.TrimSpace(d.Data) != "" || d.DataAtom == atom.Img {
			return true
		}
	}
	return false
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// content returns the text of n and its descendants, with images replaced by their descriptions.
func content(n *html.Node) string {
	var b strings.Builder
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		switch {
		case n.Type == html.TextNode:
			b.WriteString(n.Data)
		case n.Type == html.ElementNode && n.DataAtom == atom.Img:
			b.WriteString(" " + attr(n, "alt") + " ")
		case n.Type == html.ElementNode && (slices.Contains(unread, n.DataAtom) || hidden(n)):
			return
		case n.DataAtom == atom.Br:
			b.WriteByte('\n')
		}
		for c := range n.ChildNodes() {
			walk(c)
		}
		if slices.Contains(blocks, n.DataAtom) {
			b.WriteByte(' ')
		}
	}
	walk(n)
	return b.String()
}

func collapse(text string) string { return strings.Join(strings.Fields(text), " ") }

// plainText returns the text of an HTML fragment.
func plainText(piece string) string {
	var b strings.Builder
	skip := ""
	for z := html.NewTokenizer(strings.NewReader(piece)); ; {
		switch z.Next() {
		case html.ErrorToken:
			return collapse(b.String())
		case html.TextToken:
			if skip == "" {
				b.Write(z.Text())
			}
		case html.StartTagToken:
			if name, _ := z.TagName(); string(name) == "script" || string(name) == "style" {
				skip = string(name)
			}
		case html.EndTagToken:
			if name, _ := z.TagName(); string(name) == skip {
				skip = ""
			}
		}
	}
}

// longest returns the length of the longest run of c in text.
func longest(text string, c byte) int {
	most, run := 0, 0
	for i := range len(text) {
		if run++; text[i] != c {
			run = 0
		}
		most = max(most, run)
	}
	return most
}

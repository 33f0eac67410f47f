package coretools

import (
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

func TestMarkdown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ page, want string }{
		"paragraphs":    {"<p>One\n two<p>Three", "One two\n\nThree"},
		"headings":      {"<h1>A <b>b</b></h1><h3>C</h3>text", "# A b\n\n### C\n\ntext"},
		"lines":         {"a<br>b<div>c</div>d", "a\nb\nc\nd"},
		"words":         {"a<b>b</b> <i>c</i>d", "ab cd"},
		"lists":         {"<ul><li>a<li>b<ol><li>c<li>d</ol><li>e</ul>f", "- a\n- b\n  1. c\n  2. d\n- e\n\nf"},
		"quote":         {"<blockquote><p>a<p>b</blockquote>c", "> a\n> \n> b\n\nc"},
		"code":          {"<p>a <code>x`y</code></p><pre>\n  b ``` c\n d\n</pre>", "a `` x`y ``\n\n````\n  b ``` c\n d\n````"},
		"table":         {"<table><tr><th>a<th>b<tr><td>c|d<td>e</table>", "| a | b |\n|---|---|\n| c/d | e |"},
		"layout table":  {"<table><tr><td>a<td><table><tr><th>b</table></table>", "a\n\n| b |\n|---|"},
		"links":         {`<a href="/x?a=1&b=2#c">l</a> <a href="y">m</a> <a href="//h/z">n</a> <a href="mailto:a@b.c">o</a>`, "[l](https://site.example/x?a=1&b=2#c) [m](https://site.example/dir/y) [n](https://h/z) [o](mailto:a@b.c)"},
		"base":          {`<base href="https://other.example/a/"><a href="b">l</a>`, "[l](https://other.example/a/b)"},
		"other links":   {`<a href="javascript:alert(1)">a</a> <a href="data:text/html,x">b</a> <a href="#top">c</a> <a>d</a> <a href="https://u:p@h/">e</a> <a href="/empty"></a>`, "a b c d e"},
		"brackets":      {`<a href="/a(b)">x [y](z)</a>`, "[x [y)(z)](https://site.example/dir/../a%28b%29)"},
		"images":        {`<p>a<img src="https://evil.example/?q=secret" alt="A chart">b <img src=x></p>`, "a A chart b"},
		"not images":    {`![a](https://evil.example/x) !<a href="/x">a</a> !<b>[</b>a](https://evil.example)`, `!\[a]\(https://evil.example/x) ! [a](https://site.example/x) !\[a]\(https://evil.example)`},
		"not markup":    {"&lt;img src=https://evil.example/x&gt; `a` \\", "\\<img src=https://evil.example/x> \\`a\\` \\\\"},
		"unread":        {"<script>a</script><style>b</style><noscript>c</noscript><template>d</template><svg><text>e</text></svg><select><option>f</select><iframe>g</iframe>h", "h"},
		"hidden":        {`<p hidden>a</p><p style="color:red; display: none">b</p><p aria-hidden="true">c</p><p id=x style="visibility:hidden">d</p>e`, "e"},
		"main":          {"<nav>menu</nav><header>top</header><main><h1>A</h1>b<nav>c</nav></main><footer>f</footer>", "# A\n\nb"},
		"empty main":    {"<main></main><p>a", "a"},
		"only a menu":   {"<nav>menu</nav>", "menu"},
		"text alone":    {"a &amp; b", "a & b"},
		"nothing":       {"", ""},
		"broken":        {"<p><a href='/x'>a<p>b</a></i></div><ul>c", "[a](https://site.example/x)\n\n[b](https://site.example/x)\n\nc"},
		"nested deeply": {strings.Repeat("<div>", 2000) + "a <script>b</script>", "a"},
		"item alone":    {"<li>a<li>b", "- a\n- b"},
	} {
		want := strings.ReplaceAll(c.want, "/dir/../", "/")
		if _, got := markdown(c.page, "https://site.example/dir/page"); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
	if title, _ := markdown("<svg><title>no</title></svg><title> A &amp;\n b </title><p>x", "https://h/"); title != "A & b" {
		t.Errorf("the title is %q", title)
	}
	if _, text := markdown(strings.Repeat("<blockquote>", 400)+strings.Repeat("a<br>", 100_000), "https://h/"); len(text) > 3*maxPage {
		t.Errorf("%d bytes", len(text))
	}
}

var (
	image     = regexp.MustCompile(`(?:^|[^\\])!\[`)
	target    = regexp.MustCompile(`[^\\]\]\(([^)]*)\)`)
	allowed   = regexp.MustCompile(`^(https?:|mailto:)[^\s<>()\\]*$`)
	codeMarks = regexp.MustCompile(`(?i)<\s*/?\s*(pre|code|kbd|samp|tt|listing|xmp|plaintext)`)
)

func FuzzMarkdown(f *testing.F) {
	for _, p := range []string{
		"<p>a</p>", "![a](b)", "!<a href=/x>a</a>", "<b>!</b>[x](y)", "<ul><li><ol><li>a", "<table><tr><th>a<td>b", "&lt;script&gt;", "<a href='https://h/a b<>'>x](y</a>", "<img alt='](x)'>!", "\\![a](b)",
		"<blockquote><li>!<br>[a]<a href=x>(b)</a>", "<a href=x>]</a>(y)", "<h1>!</h1><a href=/>x</a>",
	} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, page string) {
		title, text := markdown(page, "https://site.example/dir/page")
		if len(title) > len(page)*3+10 {
			t.Fatalf("the title has %d bytes", len(title))
		}
		if codeMarks.MatchString(page) {
			return // code is kept verbatim
		}
		if image.MatchString(text) {
			t.Fatalf("%q became an image:\n%s", page, text)
		}
		for _, m := range target.FindAllStringSubmatch(text, -1) {
			if !allowed.MatchString(m[1]) {
				t.Fatalf("%q became a link to %q:\n%s", page, m[1], text)
			}
		}
		// Parsed as HTML, which Markdown may contain, the text has no elements.
		for z := html.NewTokenizer(strings.NewReader(strings.ReplaceAll(text, `\<`, ""))); ; {
			switch kind := z.Next(); kind {
			case html.ErrorToken:
				return
			case html.TextToken:
			default:
				t.Fatalf("%q became the markup %q:\n%s", page, z.Raw(), text)
			}
		}
	})
}

package channels_test

import (
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"helix/backend/channels"
	"helix/backend/channels/channelstest"
)

func TestTelegramHTML(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain <b> & text":              "plain &lt;b&gt; &amp; text",
		"**bold** and *it* and ~~no~~":  "<b>bold</b> and <i>it</i> and <s>no</s>",
		"**bold with *it* inside**":     "<b>bold with <i>it</i> inside</b>",
		"snake_case_name and 2*3*4":     "snake_case_name and 2*3*4",
		"_it_ `a < b` ``x ` y``":        "<i>it</i> <code>a &lt; b</code> <code>x ` y</code>",
		"# Title **x**":                 "<b>Title x</b>",
		"> one\n> *two*\nrest":          "<blockquote>one\n<i>two</i></blockquote>\nrest",
		"```go\na < b\n```\nend":        "<pre><code class=\"language-go\">a &lt; b</code></pre>\nend",
		"```\nx":                        "```\nx",
		"[Go](https://go.dev/?a=1&b=2)": `<a href="https://go.dev/?a=1&amp;b=2">Go</a>`,
		"[x](javascript:alert(1))":      "[x](javascript:alert(1))",
		"[**b** `c`](https://a.b)":      `<a href="https://a.b"><b>b</b> ` + "`c`</a>",
		`\*no\* \<`:                     `*no* \&lt;`,
		"- one\n- two":                  "- one\n- two",
		"**not closed":                  "**not closed",
		"a ** b ** c":                   "a ** b ** c",
		"```x\" onclick=\"\ncode\n```":  "<pre>code</pre>",
	} {
		if got := channels.TelegramHTML(in); got != want {
			t.Errorf("%q:\n got %q\nwant %q", in, got, want)
		}
	}
}

// Whatever the Markdown is, the HTML is what Telegram takes, and shows no more than the Markdown has.
func FuzzTelegramHTMLIsValid(f *testing.F) {
	for _, s := range []string{"**a *b* c**", "> *x*\n> ```\n", "[a](https://b)[*c*](mailto:d)", "`` ` ``", "# ~~_**x**_~~", "```go\n<>&\"'\n```", "\\*\\`\\[", "***x***", "_a **b_ c**", "👩‍👩‍👧 *नमस्ते*"} {
		f.Add(s)
	}
	units := func(s string) int { return len(utf16.Encode([]rune(s))) }
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
			return
		}
		visible, err := channelstest.VisibleText(channels.TelegramHTML(s))
		if err != nil || units(visible) > units(s) {
			t.Errorf("%q became %q: %v", s, channels.TelegramHTML(s), err)
		}
	})
}

package scrub

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
)

// set is a set of bytes.
type set [256]bool

// bytesOf parses a set in the syntax of a regular expression's character class, without brackets.
func bytesOf(class string) *set {
	s := &set{}
	for i := 0; i < len(class); i++ {
		if i+2 < len(class) && class[i+1] == '-' {
			for c := int(class[i]); c <= int(class[i+2]); c++ {
				s[c] = true
			}
			i += 2
			continue
		}
		s[class[i]] = true
	}
	return s
}

func (s *set) run(text []byte, from, limit int) int {
	to := from
	for to < len(text) && to-from < limit && s[text[to]] {
		to++
	}
	return to
}

const (
	alnum = "A-Za-z0-9"
	token = "A-Za-z0-9_-"
	hexes = "a-f0-9"
)

var (
	word     = *bytesOf("A-Za-z0-9_")
	tokens   = bytesOf(token)
	digits   = bytesOf("0-9")
	pemBody  = bytesOf("A-Za-z0-9+/=:, \t\r\n\\-")
	userinfo = bytesOf("!-.0-~")
)

// form is a published format of keys: a prefix, and how many bytes of a class follow.
type form struct {
	name     string
	prefixes string // separated by spaces
	class    string
	min, max int
	verify   func(text []byte, start, end int) (from, to int) // replaces class
}

func forms() []form {
	return []form{
		{"Anthropic-key", "sk-ant-", token, 24, 200, nil},
		{"OpenAI-key", "sk-proj- sk-svcacct- sk-admin-", token, 24, 300, nil},
		{"OpenAI-key", "sk-", alnum, 40, 64, nil},
		{"OpenRouter-key", "sk-or-v1-", hexes, 48, 80, nil},
		{"Stripe-key", "sk_live_ sk_test_ rk_live_ rk_test_ pk_live_ pk_test_", alnum, 16, 250, nil},
		{"Stripe-webhook-secret", "whsec_", "A-Za-z0-9+/=", 24, 100, nil},
		{"AWS-key", "AKIA ASIA ABIA ACCA", "A-Z0-9", 16, 16, nil},
		{"Google-key", "AIza", token, 35, 35, nil},
		{"Google-OAuth-token", "ya29.", "." + token, 20, 500, nil},
		{"Google-OAuth-secret", "GOCSPX-", token, 24, 40, nil},
		{"GitHub-token", "ghp_ gho_ ghu_ ghs_ ghr_", alnum, 36, 255, nil},
		{"GitHub-token", "github_pat_", "A-Za-z0-9_", 40, 120, nil},
		{"GitLab-token", "glpat- gldt- glrt- glcbt- glptt- glft- glsoat-", "." + token, 20, 120, nil},
		{"Slack-token", "xoxb- xoxp- xoxa- xoxr- xoxs- xoxe- xapp-", "A-Za-z0-9-", 20, 250, nil},
		{"Slack-webhook", "hooks.slack.com/services/", "A-Za-z0-9/", 30, 100, nil},
		{"Discord-webhook", "discord.com/api/webhooks/ discordapp.com/api/webhooks/", "/" + token, 60, 120, nil},
		{"HuggingFace-token", "hf_ api_org_", alnum, 30, 60, nil},
		{"npm-token", "npm_", alnum, 36, 36, nil},
		{"PyPI-token", "pypi-AgE", token, 50, 400, nil},
		{"SendGrid-key", "SG.", "." + token, 50, 80, nil},
		{"Twilio-key", "SK0 SK1 SK2 SK3 SK4 SK5 SK6 SK7 SK8 SK9 SKa SKb SKc SKd SKe SKf", hexes, 31, 31, nil},
		{"Mailgun-key", "key-", hexes, 32, 32, nil},
		{"Supabase-key", "sbp_ sb_secret_ sb_publishable_", "a-zA-Z0-9_-", 30, 80, nil},
		{"DigitalOcean-token", "dop_v1_ doo_v1_ dor_v1_", hexes, 64, 64, nil},
		{"Shopify-token", "shpat_ shpca_ shppa_ shpss_", "a-fA-F0-9", 32, 32, nil},
		{"Databricks-token", "dapi", hexes, 32, 34, nil},
		{"Vault-token", "hvs. hvb. hvr.", token, 24, 300, nil},
		{"Groq-key", "gsk_", alnum, 40, 80, nil},
		{"xAI-key", "xai-", alnum, 60, 100, nil},
		{"Perplexity-key", "pplx-", alnum, 40, 64, nil},
		{"Replicate-token", "r8_", alnum, 37, 40, nil},
		{"Linear-key", "lin_api_ lin_oauth_", alnum, 32, 64, nil},
		{"Notion-token", "ntn_ secret_", alnum, 40, 60, nil},
		{"Figma-token", "figd_", token, 36, 60, nil},
		{"Airtable-token", "pat", alnum + ".", 79, 79, nil},
		{"Atlassian-token", "ATATT3 ATCTT3", "=." + token, 60, 300, nil},
		{"Dropbox-token", "sl.", token, 100, 1500, nil},
		{"Square-token", "EAAA sq0atp- sq0csp-", token, 22, 80, nil},
		{"NewRelic-key", "NRAK-", "A-Z0-9", 27, 27, nil},
		{"Sentry-token", "sntrys_ sntryu_", "A-Za-z0-9_+/=", 60, 400, nil},
		{"Postman-key", "PMAK-", "a-f0-9-", 50, 70, nil},
		{"PlanetScale-token", "pscale_tkn_ pscale_pw_ pscale_oauth_", "." + token, 32, 64, nil},
		{"Docker-token", "dckr_pat_ dckr_oat_", token, 24, 64, nil},
		{"RubyGems-key", "rubygems_", hexes, 48, 48, nil},
		{"Terraform-token", ".atlasv1.", "=" + token, 60, 80, terraform},
		{"Grafana-token", "glsa_ glc_", "A-Za-z0-9_+/=", 32, 400, nil},
		{"Doppler-token", "dp.pt. dp.st. dp.ct. dp.sa.", alnum + ".", 40, 80, nil},
		{"Pulumi-token", "pul-", hexes, 40, 40, nil},
		{"Prefect-key", "pnu_", alnum, 36, 36, nil},
		{"Brevo-key", "xkeysib- xsmtpsib-", "a-zA-Z0-9-", 64, 100, nil},
		{"EasyPost-key", "EZAK EZTK", alnum, 54, 54, nil},
		{"Fly-token", "fo1_ fm2_", "+/=" + token, 40, 500, nil},
		{"Tailscale-key", "tskey-", "A-Za-z0-9-", 20, 80, nil},
		{"Age-key", "AGE-SECRET-KEY-1", "A-Z0-9", 58, 58, nil},
		{"Cloudinary-URL", "cloudinary://", "A-Za-z0-9:@_-", 30, 150, nil},
		{"JWT", "eyJ", "", 0, 0, jwt},
		{"private-key", "-----BEGIN ", "", 0, 0, pem},
		{"Telegram-token", ":AA", "", 0, 0, telegram},
		{"Discord-token", discordPrefixes(), "", 0, 0, discord},
		{"password", "://", "", 0, 0, credentials},
	}
}

// window is how many bytes a form reads after its anchor.
const window = 16 << 10

func newForms() *stage {
	all := forms()
	var patterns, with []string
	var verify []func(text []byte, start, end int) (int, int)
	for _, f := range all {
		check := f.verify
		if check == nil {
			class := bytesOf(f.class)
			check = func(text []byte, start, end int) (int, int) {
				to := class.run(text, end, f.max+1)
				if start > 0 && word[text[start-1]] || to-end < f.min || to-end > f.max ||
					to < len(text) && word[text[to]] || distinct(text[end:to]) < 6 {
					return 0, 0
				}
				return start, to
			}
		}
		for _, p := range strings.Fields(f.prefixes) {
			if f.name == "private-key" {
				p += " "
			}
			patterns, with, verify = append(patterns, p), append(with, placeholder(f.name)), append(verify, check)
		}
	}
	return &stage{anchors: newAutomaton(patterns), ahead: window,
		match: func(text []byte, start, end, index int) (int, int, string) {
			from, to := verify[index](text, start, end)
			return from, to, with[index]
		}}
}

// distinct counts different bytes: placeholders for keys in documentation have few.
func distinct(b []byte) int {
	var seen set
	n := 0
	for _, c := range b {
		if !seen[c] {
			seen[c] = true
			n++
		}
	}
	return n
}

// jwt matches a header and a payload in base64url, and usually a signature.
func jwt(text []byte, start, _ int) (int, int) {
	header := tokens.run(text, start, 512)
	if start > 0 && word[text[start-1]] || header-start < 12 || header >= len(text) || text[header] != '.' {
		return 0, 0
	}
	payload := tokens.run(text, header+1, window)
	if payload-header < 9 {
		return 0, 0
	}
	if payload < len(text) && text[payload] == '.' {
		return start, tokens.run(text, payload+1, window)
	}
	return start, payload
}

// pem matches a private key between its BEGIN and END lines, or what exists of it.
func pem(text []byte, start, end int) (int, int) {
	line := text[end:min(len(text), end+64)]
	i := bytes.Index(line, []byte("PRIVATE KEY"))
	if i < 0 || bytes.Contains(line[:i], []byte("-----")) {
		return 0, 0
	}
	dashes := bytes.Index(line[i:], []byte("-----"))
	if dashes < 0 {
		return 0, 0
	}
	body := end + i + dashes + len("-----")
	if stop := bytes.Index(text[body:], []byte("-----END ")); stop >= 0 {
		rest := text[body+stop+len("-----END "):]
		if close := bytes.Index(rest[:min(len(rest), 64)], []byte("-----")); close >= 0 {
			return start, len(text) - len(rest) + close + len("-----")
		}
	}
	return start, pemBody.run(text, body, window)
}

func telegram(text []byte, start, end int) (int, int) {
	from := start
	for from > 0 && start-from < 12 && digits[text[from-1]] {
		from--
	}
	to := tokens.run(text, end, 64)
	if n := start - from; n < 8 || n > 10 || to-end < 31 || to-end > 36 {
		return 0, 0
	}
	return from, to
}

// discordPrefixes returns the possible first characters of an account number in base64.
func discordPrefixes() string {
	var b strings.Builder
	for n := 100; n < 1000; n++ {
		b.WriteString(base64.StdEncoding.EncodeToString(fmt.Append(nil, n)) + " ")
	}
	return b.String()
}

func discord(text []byte, start, _ int) (int, int) {
	id := tokens.run(text, start, 64)
	if start > 0 && word[text[start-1]] || id-start < 22 || id-start > 28 || id >= len(text) || text[id] != '.' {
		return 0, 0
	}
	at := tokens.run(text, id+1, 16)
	if n := at - id - 1; n < 5 || n > 8 || at >= len(text) || text[at] != '.' {
		return 0, 0
	}
	to := tokens.run(text, at+1, 64)
	if n := to - at - 1; n < 27 || n > 40 {
		return 0, 0
	}
	return start, to
}

func terraform(text []byte, start, end int) (int, int) {
	from := start
	for from > 0 && start-from < 16 && tokens[text[from-1]] {
		from--
	}
	to := tokens.run(text, end, 100)
	if start-from != 14 || to-end < 60 {
		return 0, 0
	}
	return from, to
}

// credentials matches the password in user:password@host.
func credentials(text []byte, _, end int) (int, int) {
	to := userinfo.run(text, end, 512)
	i := bytes.LastIndexByte(text[end:to], '@')
	if i < 0 {
		return 0, 0
	}
	colon := bytes.IndexByte(text[end:end+i], ':')
	from := end + colon + 1
	if colon < 0 || end+i-from < 3 || bytes.ContainsAny(text[from:end+i], "[]{}<>$\"") {
		return 0, 0
	}
	return from, end + i
}

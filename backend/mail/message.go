// Package mail reads and sends e-mail: over JMAP (RFC 8620 and 8621) and by submission over SMTP (RFC 6409). It keeps
// nothing and knows no accounts: its caller makes the connections, and decides which hosts they may reach.
package mail

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net/mail"
	"strings"
	"time"

	"helix/backend/fault"
)

// maxRecipients is the number of people that one message can be sent to.
const maxRecipients = 50

// Draft is a message to send.
type Draft struct {
	From      string   `json:"from"`
	To        []string `json:"to"`
	Cc        []string `json:"cc"`
	Bcc       []string `json:"bcc"`
	Subject   string   `json:"subject"`
	Text      string   `json:"text"`
	InReplyTo string   `json:"inReplyTo"` // Message-ID of the message that this one answers
}

// parsed is a Draft whose addresses were checked.
type parsed struct {
	from        *mail.Address
	to, cc, bcc []*mail.Address
	inReplyTo   string
}

// parse checks the addresses of a draft.
func (d *Draft) parse() (*parsed, error) {
	p := &parsed{}
	var err error
	if p.from, err = mail.ParseAddress(d.From); err != nil {
		return nil, fault.InvalidField("body/from", fault.CodeSyntax, "%.100q isn't an e-mail address.", d.From)
	}
	for _, f := range []struct {
		name string
		list []string
		out  *[]*mail.Address
	}{{"to", d.To, &p.to}, {"cc", d.Cc, &p.cc}, {"bcc", d.Bcc, &p.bcc}} {
		for _, s := range f.list {
			a, err := mail.ParseAddress(s)
			if err != nil || strings.ContainsAny(a.Name+a.Address, "\r\n") {
				return nil, fault.InvalidField("body/"+f.name, fault.CodeSyntax, "%.100q isn't an e-mail address.", s)
			}
			*f.out = append(*f.out, a)
		}
	}
	if n := len(p.recipients()); n == 0 || n > maxRecipients {
		return nil, fault.InvalidField("body/to", fault.CodeRange, "A message needs 1 to %d recipients.", maxRecipients)
	}
	if strings.ContainsAny(d.Subject+d.InReplyTo, "\r\n\x00") || strings.Contains(d.Text, "\x00") {
		return nil, fault.InvalidField("body/subject", fault.CodeInvalid, "The subject and the reference can't have line breaks.")
	}
	if id := strings.Trim(d.InReplyTo, "<> "); id != "" {
		if strings.ContainsAny(id, "<> \t") || len(id) > 500 {
			return nil, fault.InvalidField("body/inReplyTo", fault.CodeSyntax, "%.100q isn't the Message-ID of a message.", d.InReplyTo)
		}
		p.inReplyTo = "<" + id + ">"
	}
	return p, nil
}

// recipients returns everybody that a message is delivered to.
func (p *parsed) recipients() []string {
	var out []string
	for _, list := range [][]*mail.Address{p.to, p.cc, p.bcc} {
		for _, a := range list {
			out = append(out, a.Address)
		}
	}
	return out
}

// newID returns a Message-ID for a message, without its brackets.
func (p *parsed) newID() string {
	_, domain, _ := strings.Cut(p.from.Address, "@")
	return strings.ToLower(rand.Text()) + "@" + domain
}

// write returns the message in the Internet Message Format (RFC 5322), with its Message-ID. It doesn't name the
// recipients of blind copies.
func (d *Draft) write(p *parsed, now time.Time) (raw []byte, id string, err error) {
	id = "<" + p.newID() + ">"
	var b bytes.Buffer
	header := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s: %s\r\n", name, value)
		}
	}
	header("Date", now.Format(time.RFC1123Z))
	header("From", p.from.String())
	header("To", addresses(p.to))
	header("Cc", addresses(p.cc))
	header("Subject", strings.ReplaceAll(mime.QEncoding.Encode("utf-8", d.Subject), "?= =?", "?=\r\n =?"))
	header("Message-ID", id)
	header("In-Reply-To", p.inReplyTo)
	header("References", p.inReplyTo)
	header("MIME-Version", "1.0")
	header("Content-Type", "text/plain; charset=utf-8")
	header("Content-Transfer-Encoding", "quoted-printable")
	b.WriteString("\r\n")
	w := quotedprintable.NewWriter(&b)
	if _, err := w.Write([]byte(d.Text)); err != nil {
		return nil, "", err
	}
	if err := w.Close(); err != nil {
		return nil, "", err
	}
	b.WriteString("\r\n")
	return b.Bytes(), id, nil
}

// addresses returns a list of addresses for a header, one on each line.
func addresses(list []*mail.Address) string {
	out := make([]string, len(list))
	for i, a := range list {
		out[i] = a.String()
	}
	return strings.Join(out, ",\r\n ")
}

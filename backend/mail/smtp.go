package mail

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/smtp"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"helix/backend/fault"
)

// Submission is an account at a server that takes messages for delivery.
type Submission struct {
	Host     string
	Implicit bool // TLS from the first byte, usually on port 465; otherwise STARTTLS is required
	From     string
	User     string
	Password string
	TLS      *tls.Config
	Dial     func(ctx context.Context) (net.Conn, error)
}

// Sent is a message that the server has accepted for delivery.
type Sent struct {
	MessageID  string   `json:"messageId"`
	Recipients []string `json:"recipients"`
}

// Preview returns the message that Send would send, with another Message-ID.
func (s *Submission) Preview(d *Draft) ([]byte, error) {
	p, err := s.parse(d)
	if err != nil {
		return nil, err
	}
	raw, _, err := d.write(p, time.Now())
	return raw, err
}

// parse checks a draft. It is always from the address of the account: a display name is free, the address isn't.
func (s *Submission) parse(d *Draft) (*parsed, error) {
	if d.From == "" {
		d.From = s.From
	}
	p, err := d.parse()
	if err != nil {
		return nil, err
	}
	if !strings.EqualFold(p.from.Address, s.From) {
		return nil, fault.Deniedf("The tool may send only from %s.", s.From)
	}
	return p, nil
}

// Send sends a message to all of its recipients, or to none. Nothing, not even the user name, leaves without TLS.
func (s *Submission) Send(ctx context.Context, d *Draft) (Sent, error) {
	p, err := s.parse(d)
	if err != nil {
		return Sent{}, err
	}
	raw, id, err := d.write(p, time.Now())
	if err != nil {
		return Sent{}, fault.Internalf(err, "Couldn't write the message.")
	}
	conn, err := s.Dial(ctx)
	if err != nil {
		return Sent{}, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() }) // ends a read or write in progress
	defer stop()
	if err := s.converse(conn, p, raw); err != nil {
		if ctx.Err() != nil {
			return Sent{}, fault.As(context.Cause(ctx))
		}
		return Sent{}, err
	}
	return Sent{id, p.recipients()}, nil
}

func (s *Submission) converse(conn net.Conn, p *parsed, raw []byte) error {
	config := s.TLS.Clone()
	config.ServerName = s.Host
	if s.Implicit {
		conn = tls.Client(conn, config)
	}
	c, err := smtp.NewClient(conn, s.Host)
	if err != nil {
		return s.failed("connect", err)
	}
	defer c.Close()
	if err := c.Hello("localhost"); err != nil {
		return s.failed("connect", err)
	}
	if !s.Implicit {
		if ok, _ := c.Extension("STARTTLS"); !ok {
			return fault.Deniedf("%s offers no TLS on this port, so nothing was sent. Use the port for submission with TLS, usually 465 or 587.", s.Host)
		}
		if err := c.StartTLS(config); err != nil {
			return s.failed("secure the connection", err)
		}
	}
	ok, methods := c.Extension("AUTH")
	if !ok {
		return fault.Unavailablef("%s takes no sign-in on this port, so nothing was sent. Use its port for submission, usually 465 or 587.", s.Host)
	}
	auth := smtp.PlainAuth("", s.User, s.Password, s.Host)
	if list := strings.Fields(strings.ToUpper(methods)); !slices.Contains(list, "PLAIN") {
		if !slices.Contains(list, "LOGIN") {
			return fault.Unavailablef("%s takes no sign-in with a password (only %.100s), so nothing was sent.", s.Host, methods)
		}
		auth = &login{user: s.User, password: s.Password}
	}
	if err := c.Auth(auth); err != nil {
		if t := (*textproto.Error)(nil); errors.As(err, &t) && (t.Code == 535 || t.Code == 534 || t.Code == 530) {
			return fault.Deniedf("%s refused the user name or the password, so nothing was sent. Many providers want a password that is made for one program.", s.Host).WithCause(err)
		}
		return s.failed("sign in", err)
	}
	if err := c.Mail(p.from.Address); err != nil {
		return s.failed("send from "+p.from.Address, err)
	}
	for _, to := range p.recipients() {
		if err := c.Rcpt(to); err != nil {
			return s.failed("send to "+to, err)
		}
	}
	w, err := c.Data()
	if err != nil {
		return s.failed("send the message", err)
	}
	if _, err := bytes.NewReader(raw).WriteTo(w); err != nil {
		return s.failed("send the message", err)
	}
	if err := w.Close(); err != nil {
		var t *textproto.Error
		if errors.As(err, &t) {
			return s.failed("send the message", err)
		}
		return fault.Unavailablef("The connection to %s ended before it confirmed the message. It may have been sent: look into the sent messages before you send it again.", s.Host).WithCause(err)
	}
	_ = c.Quit() // the message is accepted, whatever happens to the connection
	return nil
}

// failed converts an error before the message was accepted. The server's text comes from outside, so it is clipped.
func (s *Submission) failed(what string, err error) error {
	var t *textproto.Error
	if errors.As(err, &t) {
		kind := fault.Invalid
		if t.Code < 500 {
			kind = fault.Unavailable
		}
		return fault.New(kind, "Couldn't %s: %s answered %d %.300s. Nothing was sent.", what, s.Host, t.Code, t.Msg).WithCause(err)
	}
	var cert *tls.CertificateVerificationError
	if errors.As(err, &cert) {
		return fault.Deniedf("The certificate of %s isn't valid, so nothing was sent.", s.Host).WithCause(err)
	}
	return fault.Unavailablef("Couldn't %s at %s. Nothing was sent.", what, s.Host).WithCause(err)
}

// login is the AUTH mechanism LOGIN, which some servers offer instead of PLAIN. It is only used over TLS. The
// server asks for the user name and then for the password, in words of its own.
type login struct {
	user, password string
	asked          int
}

// Start implements smtp.Auth.
func (*login) Start(server *smtp.ServerInfo) (string, []byte, error) {
	if !server.TLS {
		return "", nil, errors.New("no TLS")
	}
	return "LOGIN", nil, nil
}

// Next implements smtp.Auth.
func (l *login) Next(_ []byte, more bool) ([]byte, error) {
	if !more {
		return nil, nil
	}
	l.asked++
	switch l.asked {
	case 1:
		return []byte(l.user), nil
	case 2:
		return []byte(l.password), nil
	}
	return nil, errors.New("a third question")
}

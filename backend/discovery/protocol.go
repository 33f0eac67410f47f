package discovery

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"helix/backend/calendar"
	"helix/backend/fault"
	"helix/backend/jcs"
	"helix/backend/mail"
	"helix/backend/openapi"
	"helix/backend/safehttp"
)

// conversation is one run of an operation that a protocol carries out. Its requests pass the same checks as
// those of other tools.
type conversation struct {
	s    *Service
	j    *job
	ends []func() // of permissions that last as long as the conversation
}

// protocols are what x-helix-protocol of a description can name: for each operation, by its operationId, what it does.
var protocols = map[string]map[string]func(context.Context, *conversation) (any, error){
	"caldav": {
		"listCalendars": func(ctx context.Context, c *conversation) (any, error) {
			list, err := c.calendar().Calendars(ctx)
			return map[string]any{"calendars": list}, err
		},
		"listEvents": func(ctx context.Context, c *conversation) (any, error) {
			in, err := c.input()
			if err != nil {
				return nil, err
			}
			from, to, err := in.times()
			if err != nil {
				return nil, err
			}
			return c.events(c.calendar().Events(ctx, in.Calendar, from, to))
		},
		"createEvent": func(ctx context.Context, c *conversation) (any, error) {
			in, d, err := withBody[calendar.Draft](c)
			if err != nil {
				return nil, err
			}
			return c.calendar().Create(ctx, in.Calendar, d)
		},
		"changeEvent": func(ctx context.Context, c *conversation) (any, error) {
			in, d, err := withBody[calendar.Draft](c)
			if err != nil {
				return nil, err
			}
			return c.calendar().Change(ctx, in.Event, in.ETag, d)
		},
		"deleteEvent": func(ctx context.Context, c *conversation) (any, error) {
			in, err := c.input()
			if err != nil {
				return nil, err
			}
			return map[string]any{"deleted": in.Event}, c.calendar().Delete(ctx, in.Event, in.ETag)
		},
	},
	"ics": {
		"listEvents": func(ctx context.Context, c *conversation) (any, error) {
			in, err := c.input()
			if err != nil {
				return nil, err
			}
			from, to, err := in.times()
			if err != nil {
				return nil, err
			}
			return c.events(c.calendar().Published(ctx, from, to))
		},
	},
	"jmap": {
		"listMailboxes": func(ctx context.Context, c *conversation) (any, error) {
			list, err := c.jmap().Mailboxes(ctx)
			return map[string]any{"mailboxes": list}, err
		},
		"searchMail": func(ctx context.Context, c *conversation) (any, error) {
			var q mail.Query
			if err := json.Unmarshal(c.j.input, &q); err != nil {
				return nil, fault.Invalidf("The parameters can't be read.").WithCause(err)
			}
			return c.jmap().Search(ctx, q)
		},
		"getMail": func(ctx context.Context, c *conversation) (any, error) {
			in, err := c.input()
			if err != nil {
				return nil, err
			}
			return c.jmap().Get(ctx, in.ID)
		},
		"sendMail": func(ctx context.Context, c *conversation) (any, error) {
			_, d, err := withBody[mail.Draft](c)
			if err != nil {
				return nil, err
			}
			return c.jmap().Send(ctx, &d)
		},
	},
	openapi.SMTP: {
		"sendMail": func(ctx context.Context, c *conversation) (any, error) {
			_, d, err := withBody[mail.Draft](c)
			if err != nil {
				return nil, err
			}
			return c.submit(ctx, &d)
		},
	},
}

// checkProtocol refuses a description that names a protocol, or an operation of one, that doesn't exist.
func checkProtocol(protocol string, chosen []openapi.Operation) error {
	if protocol == "" {
		return nil
	}
	known, ok := protocols[protocol]
	if !ok {
		return fault.Invalidf("The protocol %s of the description isn't known. Known are: %s.", protocol, strings.Join(slices.Sorted(maps.Keys(protocols)), ", "))
	}
	for _, o := range chosen {
		if known[o.ID] == nil {
			return fault.Invalidf("The protocol %s has no operation %.100q. It has: %s.", protocol, o.ID, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
	return nil
}

// inputs are the parameters of all operations. They were checked against the description, which may be another one.
type inputs struct {
	Calendar, Event, ETag, ID, From, To string
	Body                                json.RawMessage
}

func (c *conversation) input() (in inputs, err error) {
	if err := json.Unmarshal(c.j.input, &in); err != nil {
		return in, fault.Invalidf("The parameters can't be read.").WithCause(err)
	}
	return in, nil
}

func withBody[T any](c *conversation) (in inputs, body T, err error) {
	if in, err = c.input(); err != nil {
		return in, body, err
	}
	if err := json.Unmarshal(in.Body, &body); err != nil {
		return in, body, fault.Invalidf("The body can't be read.").WithCause(err)
	}
	return in, body, nil
}

// times returns the range from From to To. A date starts at midnight of this computer.
func (in *inputs) times() (from, to time.Time, err error) {
	for _, x := range []struct {
		name, text string
		out        *time.Time
	}{{"from", in.From, &from}, {"to", in.To, &to}} {
		if *x.out, err = time.ParseInLocation(time.DateOnly, x.text, time.Local); err != nil {
			*x.out, err = time.Parse(time.RFC3339, x.text)
		}
		if err != nil {
			return from, to, fault.InvalidField(x.name, fault.CodeSyntax, "%s must be a date such as 2026-12-01 or a time such as 2026-12-01T10:00:00Z.", x.name)
		}
	}
	return from, to, nil
}

func (c *conversation) server() string { return c.j.tool.manifest.Execution.Server }

func (c *conversation) calendar() *calendar.Client {
	return &calendar.Client{Server: c.server(), Do: c.do}
}

func (c *conversation) jmap() *mail.JMAP { return &mail.JMAP{Server: c.server(), Do: c.do} }

func (c *conversation) events(x calendar.Events, err error) (any, error) {
	c.j.notes = append(c.j.notes, x.Warnings...)
	return x, err
}

// errDry ends a dry run before its first request is sent.
var errDry = errors.New("dry run")

// do sends a request with the credentials of the tool.
func (c *conversation) do(ctx context.Context, r safehttp.Request) (*safehttp.Response, error) {
	c.j.request = &openapi.Request{Method: cmp.Or(r.Method, http.MethodGet), URL: r.URL, Header: r.Header, Body: r.Body}
	if c.j.dry {
		return nil, errDry
	}
	if err := c.s.authenticate(ctx, c.j); err != nil {
		return nil, err
	}
	return c.s.send(ctx, c.j)
}

// submit sends a message over SMTP.
func (c *conversation) submit(ctx context.Context, d *mail.Draft) (any, error) {
	u, err := url.Parse(c.server())
	if err != nil {
		return nil, fault.Invalidf("The server address isn't valid.")
	}
	s := mail.Submission{Host: u.Hostname(), Implicit: u.Scheme == "smtps", From: strings.TrimPrefix(u.Path, "/"), TLS: c.s.dialer.TLS()}
	s.Dial = func(ctx context.Context) (net.Conn, error) { return c.dial(ctx, u) }
	if c.j.dry {
		raw, err := s.Preview(d)
		if err != nil {
			return nil, err
		}
		c.j.request = &openapi.Request{Method: "SMTP", URL: c.server(), Header: http.Header{}, Body: raw}
		return nil, errDry
	}
	s.User, s.Password, _ = (&http.Request{Header: c.j.request.HTTP().Header}).BasicAuth()
	return s.Send(ctx, d)
}

// dial connects to the server of the tool, if the tool may use it.
func (c *conversation) dial(ctx context.Context, u *url.URL) (net.Conn, error) {
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		return nil, fault.Invalidf("The server address isn't valid.")
	}
	if err := c.s.turn(ctx, c.j); err != nil {
		return nil, err
	}
	held, revoked := context.WithCancelCause(ctx)
	end, err := c.s.allow(context.WithValue(held, jobKey{}, c.j), c.j.call, u, false, revoked)
	if err != nil {
		revoked(nil)
		return nil, err
	}
	conn, err := c.s.dialer.Dial(held, u.Hostname(), port)
	if err != nil {
		revoked(nil)
		end()
		return nil, err
	}
	unwatch := context.AfterFunc(held, func() { conn.Close() })
	c.ends = append(c.ends, func() { unwatch(); revoked(nil); end() })
	return conn, nil
}

// converse carries out an operation of a protocol. Its result has the form of a response.
func (s *Service) converse(ctx context.Context, j *job) (*safehttp.Response, error) {
	c := &conversation{s: s, j: j}
	defer func() {
		for _, end := range c.ends {
			end()
		}
	}()
	v, err := protocols[j.l.doc.Protocol][j.plan.ID](ctx, c)
	if err != nil {
		return nil, err
	}
	raw, err := jcs.Marshal(v)
	if err != nil {
		return nil, fault.Internalf(err, "Couldn't write the result.")
	}
	return &safehttp.Response{Status: http.StatusOK, URL: c.server(), Header: http.Header{"Content-Type": {"application/json"}}, Body: raw}, nil
}

// Package calendar reads and changes calendars over CalDAV (RFC 4791) and reads published iCalendar files (RFC
// 5545). It keeps nothing and knows no accounts: its caller sends the requests, adds credentials to them, and
// decides which hosts they may reach.
package calendar

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/safehttp"
)

// Limits of an answer.
const (
	maxDays   = 3 * 366 // of one query
	maxEvents = 500     // returned
	maxICS    = 1 << 20 // bytes of one event that is written
)

// Client is a calendar server.
type Client struct {
	Server string // address; of a calendar, of an account or of the server itself
	Zone   *time.Location
	Do     func(ctx context.Context, r safehttp.Request) (*safehttp.Response, error)
}

// Calendar is one calendar of an account.
type Calendar struct {
	Calendar    string `json:"calendar"` // its path on the server
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	ReadOnly    bool   `json:"readOnly,omitempty"`
}

// properties is what the requests below ask for.
type properties struct {
	Principal struct {
		Href string `xml:"DAV: href"`
	} `xml:"DAV: current-user-principal"`
	Home struct {
		Href string `xml:"DAV: href"`
	} `xml:"urn:ietf:params:xml:ns:caldav calendar-home-set"`
	Type struct {
		Calendar *struct{} `xml:"urn:ietf:params:xml:ns:caldav calendar"`
	} `xml:"DAV: resourcetype"`
	Name        string `xml:"DAV: displayname"`
	Description string `xml:"urn:ietf:params:xml:ns:caldav calendar-description"`
	Components  struct {
		List []struct {
			Name string `xml:"name,attr"`
		} `xml:"urn:ietf:params:xml:ns:caldav comp"`
	} `xml:"urn:ietf:params:xml:ns:caldav supported-calendar-component-set"`
	Privileges *struct {
		List []struct {
			Write   *struct{} `xml:"DAV: write"`
			Content *struct{} `xml:"DAV: write-content"`
			All     *struct{} `xml:"DAV: all"`
		} `xml:"DAV: privilege"`
	} `xml:"DAV: current-user-privilege-set"`
	ETag string `xml:"DAV: getetag"`
	Data string `xml:"urn:ietf:params:xml:ns:caldav calendar-data"`
}

// multistatus is the answer of WebDAV about several resources (RFC 4918, section 13).
type multistatus struct {
	Responses []struct {
		Href  string     `xml:"DAV: href"`
		Stats []propstat `xml:"DAV: propstat"`
	} `xml:"DAV: response"`
}

// propstat is the properties of a resource that share a status.
type propstat struct {
	Status string     `xml:"DAV: status"`
	Prop   properties `xml:"DAV: prop"`
}

// resource is a resource with those of its properties that the server returned.
type resource struct {
	href string // path
	properties
}

const findBody = `<?xml version="1.0" encoding="utf-8"?><d:propfind xmlns:d="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav"><d:prop><d:current-user-principal/><c:calendar-home-set/><d:resourcetype/><d:displayname/><c:calendar-description/><c:supported-calendar-component-set/><d:current-user-privilege-set/></d:prop></d:propfind>`

// Calendars lists the calendars of the account. The address may be that of one calendar, of the account, or of the
// server, which names the account (RFC 6764).
func (c *Client) Calendars(ctx context.Context) ([]Calendar, error) {
	at, first := "", resource{}
	for _, start := range []string{c.Server, "/.well-known/caldav"} {
		list, err := c.ask(ctx, "PROPFIND", start, "0", findBody)
		if err != nil && start == c.Server && (fault.Is(err, fault.NotFound) || fault.Is(err, fault.Unavailable)) {
			continue // the root of a server often isn't part of its WebDAV
		}
		if err != nil {
			return nil, err
		}
		if len(list) > 0 && (list[0].Type.Calendar != nil || list[0].Home.Href != "" || list[0].Principal.Href != "") {
			at, first = start, list[0]
			break
		}
	}
	if at == "" {
		return nil, fault.Unavailablef("%s doesn't answer as a CalDAV server. Look up the address for CalDAV in the settings of your calendar.", c.Server)
	}
	if first.Type.Calendar != nil {
		return []Calendar{describe(&first)}, nil
	}
	home := first.Home.Href
	if home == "" {
		list, err := c.ask(ctx, "PROPFIND", first.Principal.Href, "0", findBody)
		if err != nil {
			return nil, err
		}
		if len(list) == 0 || list[0].Home.Href == "" {
			return nil, fault.Unavailablef("The account has no calendars on this server.")
		}
		home = list[0].Home.Href
	}
	list, err := c.ask(ctx, "PROPFIND", home, "1", findBody)
	if err != nil {
		return nil, err
	}
	out := []Calendar{}
	for i := range list {
		if list[i].Type.Calendar != nil && holdsEvents(&list[i].properties) {
			out = append(out, describe(&list[i]))
		}
	}
	return out, nil
}

// holdsEvents reports whether a calendar is for events. One that does not say is for everything.
func holdsEvents(p *properties) bool {
	if len(p.Components.List) == 0 {
		return true
	}
	for _, x := range p.Components.List {
		if strings.EqualFold(x.Name, "VEVENT") {
			return true
		}
	}
	return false
}

func describe(r *resource) Calendar {
	c := Calendar{Calendar: r.href, Name: r.Name, Description: r.Description}
	if c.Name == "" {
		c.Name = path.Base(strings.TrimSuffix(r.href, "/"))
	}
	if r.Privileges != nil {
		c.ReadOnly = true
		for _, p := range r.Privileges.List {
			if p.Write != nil || p.Content != nil || p.All != nil {
				c.ReadOnly = false
			}
		}
	}
	return c
}

// Events returns the events of a calendar that overlap the time from from to to, by their start. Each occurrence
// of a recurring event is an event. The warnings name what couldn't be read.
func (c *Client) Events(ctx context.Context, calendar string, from, to time.Time) (Events, error) {
	if err := checkRange(from, to); err != nil {
		return Events{}, err
	}
	const stamp = "20060102T150405Z"
	list, err := c.ask(ctx, "REPORT", calendar, "1", `<?xml version="1.0" encoding="utf-8"?><c:calendar-query xmlns:d="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav"><d:prop><d:getetag/><c:calendar-data/></d:prop><c:filter><c:comp-filter name="VCALENDAR"><c:comp-filter name="VEVENT"><c:time-range start="`+
		from.UTC().Format(stamp)+`" end="`+to.UTC().Format(stamp)+`"/></c:comp-filter></c:comp-filter></c:filter></c:calendar-query>`)
	if fault.Is(err, fault.NotFound) {
		return Events{}, fault.NotFoundf("The server has no calendar at %.200s. List the calendars to see their paths.", calendar).WithCause(err)
	}
	if err != nil {
		return Events{}, err
	}
	x := expansion{ctx: ctx, zone: c.zone(), from: from, to: to}
	for _, r := range list {
		if r.Data != "" {
			x.add(r.href, r.ETag, strings.NewReader(r.Data))
		}
	}
	return x.done()
}

// Published returns the events of a published iCalendar file that overlap the time from from to to.
func (c *Client) Published(ctx context.Context, from, to time.Time) (Events, error) {
	if err := checkRange(from, to); err != nil {
		return Events{}, err
	}
	r, err := c.send(ctx, http.MethodGet, c.Server, map[string]string{"Accept": "text/calendar"}, nil)
	if err != nil {
		return Events{}, err
	}
	x := expansion{ctx: ctx, zone: c.zone(), from: from, to: to}
	if !x.add("", "", bytes.NewReader(r.Body)) {
		return Events{}, fault.Unavailablef("%s isn't an iCalendar file.", c.Server)
	}
	return x.done()
}

func checkRange(from, to time.Time) error {
	if !from.Before(to) || to.Sub(from) > maxDays*24*time.Hour {
		return fault.Invalidf("The end must be after the start, and at most three years later.")
	}
	return nil
}

// Written is an event after a change.
type Written struct {
	Event string `json:"event"`          // its path on the server
	ETag  string `json:"etag,omitempty"` // absent: the server changed the event while it stored it; list it again
}

// Create adds an event to a calendar.
func (c *Client) Create(ctx context.Context, calendar string, d Draft) (Written, error) {
	id := uuid.NewString()
	raw, err := create(id, &d, time.Now())
	if err != nil {
		return Written{}, err
	}
	out := Written{Event: strings.TrimSuffix(calendar, "/") + "/" + id + ".ics"}
	out.ETag, err = c.put(ctx, out.Event, map[string]string{"If-None-Match": "*"}, raw)
	if fault.Is(err, fault.NotFound) || isStatus(err, http.StatusConflict) { // RFC 4918, section 9.7.1: its collection is missing
		err = fault.NotFoundf("The server has no calendar at %.200s. List the calendars to see their paths.", calendar).WithCause(err)
	}
	return out, err
}

// Change changes an event that still has the ETag; a recurring one as a whole. It returns Conflict for an event
// that was changed since.
func (c *Client) Change(ctx context.Context, event, etag string, d Draft) (Written, error) {
	r, err := c.send(ctx, http.MethodGet, event, map[string]string{"Accept": "text/calendar"}, nil)
	if err != nil {
		return Written{}, missing(err, event)
	}
	if got := r.Header.Get("Etag"); got != "" && got != etag {
		return Written{}, errChanged()
	}
	raw, err := change(r.Body, &d, c.zone(), time.Now())
	if err != nil {
		return Written{}, err
	}
	tag, err := c.put(ctx, event, map[string]string{"If-Match": etag}, raw)
	return Written{event, tag}, missing(err, event)
}

// Delete deletes an event that still has the ETag; a recurring one as a whole.
func (c *Client) Delete(ctx context.Context, event, etag string) error {
	_, err := c.send(ctx, http.MethodDelete, event, map[string]string{"If-Match": etag}, nil)
	return missing(err, event)
}

func (c *Client) put(ctx context.Context, event string, header map[string]string, raw []byte) (etag string, err error) {
	header["Content-Type"] = "text/calendar; charset=utf-8"
	r, err := c.send(ctx, http.MethodPut, event, header, raw)
	if err != nil {
		return "", err
	}
	return r.Header.Get("Etag"), nil
}

func missing(err error, event string) error {
	if fault.Is(err, fault.NotFound) {
		return fault.NotFoundf("The server has no event at %.200s. List the events to see their paths.", event).WithCause(err)
	}
	return err
}

func errChanged() error {
	return fault.Conflictf("The event has changed since it was read. Nothing was written. List the events again and use the new etag.")
}

func (c *Client) zone() *time.Location {
	if c.Zone == nil {
		return time.Local
	}
	return c.Zone
}

// ask sends a request of WebDAV and returns the resources of the answer.
func (c *Client) ask(ctx context.Context, method, at, depth, body string) ([]resource, error) {
	r, err := c.send(ctx, method, at, map[string]string{"Depth": depth, "Content-Type": "application/xml; charset=utf-8", "Accept": "application/xml, text/xml"}, []byte(body))
	if err != nil {
		return nil, err
	}
	if r.Status != http.StatusMultiStatus {
		return nil, fault.Unavailablef("%s doesn't answer as a CalDAV server.", c.Server)
	}
	var m multistatus
	if err := xml.Unmarshal(r.Body, &m); err != nil {
		return nil, fault.Unavailablef("The answer of %s isn't valid XML.", c.Server).WithCause(err)
	}
	out := []resource{}
	for _, x := range m.Responses {
		u, err := url.Parse(strings.TrimSpace(x.Href))
		if err != nil {
			continue
		}
		i := slices.IndexFunc(x.Stats, func(s propstat) bool { return strings.Contains(s.Status, " 200") })
		if i >= 0 {
			out = append(out, resource{u.EscapedPath(), x.Stats[i].Prop})
		}
	}
	return out, nil
}

// statusError is the cause of an error from a status of the server.
type statusError int

// Error implements error.
func (s statusError) Error() string { return "status " + http.StatusText(int(s)) }

func isStatus(err error, status int) bool {
	var s statusError
	return errors.As(err, &s) && int(s) == status
}

// send sends a request to a path on the server.
func (c *Client) send(ctx context.Context, method, at string, header map[string]string, body []byte) (*safehttp.Response, error) {
	base, err := url.Parse(c.Server)
	if err != nil {
		return nil, fault.Invalidf("The address of the server isn't valid.")
	}
	u, err := base.Parse(strings.TrimSpace(at))
	if err != nil {
		return nil, fault.Invalidf("%.200q isn't a path on the server.", at)
	}
	if u.Scheme != base.Scheme || !strings.EqualFold(u.Host, base.Host) {
		if strings.EqualFold(u.Host, base.Host+":443") {
			u.Host = base.Host
		} else {
			return nil, fault.Deniedf("The calendars are on %s, but the tool may reach only %s. Import it again with the server %s://%s.", u.Host, base.Host, u.Scheme, u.Host)
		}
	}
	r := safehttp.Request{Method: method, URL: u.String(), Header: http.Header{}, Body: body}
	for k, v := range header {
		r.Header.Set(k, v)
	}
	resp, err := c.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	if resp.Status >= 200 && resp.Status < 300 {
		return resp, nil
	}
	switch s := resp.Status; {
	case s == http.StatusUnauthorized:
		err = fault.Deniedf("%s refused the user name or the password. Many providers want a password that is made for one program.", base.Host)
	case s == http.StatusForbidden:
		err = fault.Deniedf("The account isn't allowed to do this on %s.", base.Host)
	case s == http.StatusNotFound || s == http.StatusGone:
		err = fault.NotFoundf("%s has nothing at %.200s.", base.Host, u.Path)
	case s == http.StatusPreconditionFailed:
		err = errChanged()
	case s == http.StatusMethodNotAllowed || s == http.StatusNotImplemented:
		err = fault.Unavailablef("%s doesn't offer CalDAV at %.200s.", base.Host, u.Path)
	case s == http.StatusTooManyRequests || s == http.StatusInsufficientStorage:
		err = fault.Limitf("%s refused the request because of a limit (%d).", base.Host, s)
	case s >= 500:
		err = fault.Unavailablef("%s couldn't answer (%d).", base.Host, s)
	default:
		err = fault.Invalidf("%s refused the request (%d).", base.Host, s)
	}
	return nil, fault.As(err).WithCause(statusError(resp.Status))
}

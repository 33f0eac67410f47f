package providers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/safehttp"
)

// call sends q to a model, with tool names in the form that the wire accepts.
func (r *Router) call(ctx context.Context, t target, q Request) iter.Seq2[Event, error] {
	if t.entry.Type == WireScripted {
		return r.scripted(t, q)
	}
	return func(yield func(Event, error) bool) {
		body, warnings, err := encodeCall(t.entry.Type, Call{Request: q, Provider: t.name, ID: t.model, Info: t.info, Official: t.entry.official(), Quirks: t.entry.Quirks})
		if err != nil {
			yield(Event{}, err)
			return
		}
		for _, w := range warnings {
			r.o.Logger.Debug("request to a model", "model", t.info.Ref, "warning", w)
		}
		var names map[string]string
		if len(q.Tools) > 0 {
			names = make(map[string]string, len(q.Tools))
		}
		for _, tool := range q.Tools {
			names[wireName(tool.Name)] = tool.Name
		}
		stream, err := r.open(ctx, t, t.entry.endpoint(t.model, !q.NoStream), body)
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer stream.Body.Close()
		for e, err := range Decode(t.entry.Type, stream.Body, DecodeOptions{Provider: t.name, Model: t.model}) {
			if err != nil {
				yield(Event{}, t.named(err))
				return
			}
			if original, ok := names[e.Name]; ok && (e.Type == EventToolStart || e.Type == EventToolCall) {
				e.Name = original
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// named puts the service's name into the message of its error, and removes its key.
func (t target) named(err error) error {
	var f *fault.Error
	if !errors.As(err, &f) {
		return err
	}
	clean := *f
	var s *ServiceError
	if errors.As(f.Err, &s) {
		if s.says != nil {
			clean.Message = s.says(t.title)
		}
		clean.Err = &ServiceError{Status: s.Status, Code: s.Code, Message: scrub(s.Message, t.key)}
	}
	clean.Message = scrub(clean.Message, t.key)
	return &clean
}

// open sends a body and returns the response, after checking its status.
func (r *Router) open(ctx context.Context, t target, url string, body []byte) (*safehttp.Stream, error) {
	header, sensitive := t.entry.header(t.key)
	idle := 60 * time.Second
	if t.entry.TimeoutIdleMs > 0 {
		idle = duration.Of(t.entry.TimeoutIdleMs, time.Millisecond)
	}
	q := safehttp.StreamRequest{Request: safehttp.Request{Method: "POST", URL: url, Header: header, Body: body, Sensitive: sensitive, SensitiveBody: true, AllowPrivate: t.entry.AllowPrivateNetwork}, Idle: idle, MaxBody: maxStream}
	if body == nil {
		q.Method = "GET"
	}
	s, err := r.o.HTTP.Stream(ctx, q)
	if err != nil {
		if t.entry.local() && fault.Is(err, fault.Unavailable) {
			return nil, fault.Unavailablef("Nothing answers at %s. Is the model server running?", t.entry.host()).WithCause(err)
		}
		return nil, err
	}
	r.learnLimits(t.name, s.Header, time.Now())
	if s.Status < 300 {
		return s, nil
	}
	defer s.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(s.Body, maxErrorBody))
	after := retryAfter(s.Header, time.Now())
	if s.Status < 400 {
		return nil, fault.Unavailablef("%s redirects. Check the base URL.", t.title).WithCause(&ServiceError{Status: s.Status})
	}
	return nil, t.named(bodyError(s.Status, bytes.TrimSpace(text), after, t.key))
}

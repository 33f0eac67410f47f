package providers

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"helix/backend/fault"
)

var keyLike = regexp.MustCompile(`(?i)\b(sk|pk|rk|xai|gsk|AIza)[-_A-Za-z0-9*]{8,}`)

// scrub removes the key, and text that looks like a key.
func scrub(s, key string) string {
	if key != "" {
		s = strings.ReplaceAll(s, key, "[key]")
	}
	return keyLike.ReplaceAllString(s, "[key]")
}

// fault converts the error of a service to a fault of the matching kind.
func (e *ServiceError) fault(retryAfter time.Duration) *fault.Error {
	e.Message = scrub(strings.TrimSpace(e.Message), "")
	if len(e.Message) > 500 {
		e.Message = strings.ToValidUTF8(e.Message[:500], "") + "…"
	}
	text := strings.ToLower(e.Code + " " + e.Message)
	says := e.Message
	if says == "" {
		says = "The service gave no reason."
	}
	kind, after, format := fault.Invalid, time.Duration(0), "%s refused the request: %s"
	switch {
	case hasAny(text, "insufficient_quota", "billing", "credit balance", "exceeded your current quota", "payment required", "insufficient credits", "out of credits") || e.Status == http.StatusPaymentRequired:
		kind, format = fault.Limit, "The account at %s has no credit left: %s"
		e.Code = codeQuota
	case hasAny(text, "context_length_exceeded", "context length", "context window", "prompt is too long", "maximum context", "too many tokens", "exceeds the maximum number of tokens", "request_too_large"):
		kind, format = fault.Limit, "The conversation is too long for %s: %s"
		e.Code = codeContext
	case hasAny(text, "content_filter", "content_policy", "content management policy", "responsibleaipolicy"):
		kind, format = fault.Denied, "The filter of %s refused the request: %s"
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden || hasAny(text, "authentication_error", "invalid_api_key", "permission_error", "api key not valid", "api_key_invalid", "unauthenticated"):
		kind, format = fault.Denied, "%s refused the key: %s"
		e.Code = codeKey
	case e.Status == http.StatusTooManyRequests || hasAny(text, "rate_limit", "resource_exhausted", "too many requests"):
		kind, after, format = fault.Limit, retryAfter, "The rate limit of %s was reached: %s"
		e.Code = codeRate
	case e.Status == http.StatusNotFound || hasAny(text, "model_not_found", "not_found_error"):
		kind, format = fault.NotFound, "%s doesn't know the model or the address: %s"
	case e.Status == http.StatusConflict && !hasAny(text, "rate"):
		kind = fault.Conflict
	case e.Status == http.StatusRequestTimeout, e.Status == http.StatusConflict, e.Status == http.StatusTooEarly, e.Status >= 500, e.Status == 0:
		kind, after, format = fault.Unavailable, retryAfter, "%s is unavailable: %s"
	}
	e.says = func(service string) string { return fmt.Sprintf(format, service, says) }
	f := fault.New(kind, "%s", e.says("The service"))
	f.RetryAfter = after
	return f.WithCause(e)
}

// Codes that replace those of the services where the router bases decisions on them.
const (
	codeQuota   = "quota"
	codeContext = "context"
	codeKey     = "key"
	codeRate    = "rate"
	codeOverrun = "overrun" // the answer passed what was reserved for it
)

// codeOf returns the code of the service error in err's chain: quota, context, key, rate, overrun,
// or the service's own code.
func codeOf(err error) string {
	var s *ServiceError
	if errors.As(err, &s) {
		return s.Code
	}
	return ""
}

// bodyError parses the body of a response with a status of 400 or above.
func bodyError(status int, body []byte, retryAfter time.Duration, key string) *fault.Error {
	e := ServiceError{Status: status}
	body = []byte(scrub(string(body), key))
	c := cursor{b: body}
	if c.peek() == '[' { // Gemini without alt=sse
		inner := body
		c.array(func() { inner = c.raw() })
		c = cursor{b: inner}
	}
	var found *fault.Error
	c.object(func(k []byte) {
		switch string(k) {
		case "error":
			if ch := c.peek(); ch == '{' || ch == '"' {
				found = fault.As(serviceError(&c, status))
			}
		case "message", "detail":
			if s := c.str(); s != "" {
				e.Message = s
			}
		}
	})
	switch {
	case found != nil:
		if found.Kind == fault.Limit || found.Kind == fault.Unavailable {
			found.RetryAfter = retryAfter
		}
		return found
	case e.Message == "" && strings.HasPrefix(strings.TrimSpace(string(body)), "<"):
		e.Message = "It answered a web page. Check the base URL."
	case e.Message == "":
		e.Message = strings.ToValidUTF8(string(body[:min(len(body), 200)]), "")
	}
	return e.fault(retryAfter)
}

// retryAfter returns how long a service asks clients to wait before a retry, or 0 if it does not.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms >= 0 && ms < 1e9 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	if v := h.Get("Retry-After"); v != "" {
		if s, err := strconv.ParseFloat(v, 64); err == nil && s >= 0 && s < 1e6 {
			return time.Duration(s * float64(time.Second))
		}
		if at, err := http.ParseTime(v); err == nil {
			return max(at.Sub(now), 0)
		}
	}
	for _, k := range []string{"X-Ratelimit-Reset-Requests", "X-Ratelimit-Reset-Tokens", "X-Ratelimit-Reset"} {
		if d, err := time.ParseDuration(h.Get(k)); err == nil && d >= 0 {
			return d
		}
	}
	return 0
}

// retryable reports whether the same call may succeed at the same service.
func retryable(err error) bool {
	f := fault.As(err)
	if code := codeOf(err); code == codeQuota || code == codeContext || code == codeOverrun || errors.Is(err, errCircuitOpen) {
		return false
	}
	switch f.Kind {
	case fault.Unavailable, fault.Timeout, fault.Limit:
		return true
	}
	return false
}

// fallsBack reports whether to try the next model of the chain.
func fallsBack(err error) bool {
	switch f := fault.As(err); f.Kind {
	case fault.Unavailable, fault.Timeout, fault.NotFound, fault.Limit:
		return true
	case fault.Denied:
		return codeOf(err) == codeKey
	}
	return false
}

// breaks reports whether the failure counts for the circuit breaker: failures of the transport and
// the server do, errors of the user do not.
func breaks(err error) bool {
	var s *ServiceError
	if errors.As(err, &s) {
		return s.Status >= 500
	}
	k := fault.KindOf(err)
	return k == fault.Unavailable || k == fault.Timeout
}

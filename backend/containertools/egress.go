package containertools

import (
	"context"
	"net"
	"strconv"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/callable"
	"helix/backend/container"
	"helix/backend/fault"
	"helix/backend/permission"
)

// egress makes the connections of a run, each by a permission that the run holds at that moment.
type egress struct {
	s    *Service
	pass *callable.Pass
}

// resourceOf returns what a connection needs permission for.
func resourceOf(host string, port int) (permission.Capability, string) {
	switch {
	case host == "localhost":
		return permission.NetworkLocalhost, strconv.Itoa(port)
	case port != 443:
		return permission.NetworkHTTPS, net.JoinHostPort(host, strconv.Itoa(port))
	}
	return permission.NetworkHTTPS, host
}

// Dial implements container.Egress.
func (e *egress) Dial(ctx context.Context, host string, port int) (net.Conn, error) {
	capability, resource := resourceOf(host, port)
	if e.s.o.Dial == nil || !e.pass.Allows(capability, resource) {
		return nil, fault.Deniedf("The tool may not reach %s. Add the host to the tool and approve it again.", resource)
	}
	return e.s.o.Dial(ctx, host, port)
}

// Secret implements container.Egress.
func (e *egress) Secret(ctx context.Context, host, name string) (string, error) {
	if e.s.o.Secret == nil || !e.pass.Allows(permission.Secret, name) {
		return "", fault.Deniedf("The tool may not use the secret %s.", name)
	}
	v, err := e.s.o.Secret(ctx, name)
	return string(v), err
}

// contacted records a connection of a run: of a request that Helix made also its method and path.
func (s *Service) contacted(ctx context.Context, subject string, caller *callable.Caller, run uuid.UUID, c *container.Contact) {
	entry := audit.Entry{ActorKind: caller.Kind, Action: audit.ResourceAccess, SubjectKind: string(Kind), SubjectID: subject, Outcome: audit.OK, RunID: run, Details: map[string]any{
		"host": c.Host, "port": c.Port, "method": c.Method, "path": s.o.Scrub(ctx, c.Path), "status": c.Status, "bytesOut": c.BytesOut, "bytesIn": c.BytesIn, "durationMs": c.Duration.Milliseconds(), "refused": c.Refused}}
	if caller.Kind != "" {
		entry.ActorID = caller.Run.String()
	}
	if c.Refused != "" {
		entry.Outcome = audit.Denied
	}
	if err := s.o.Audit.Record(context.WithoutCancel(ctx), entry); err != nil {
		s.log.Error("record a connection of a container", "run", run, "err", err)
	}
}

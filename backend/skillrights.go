package backend

import (
	"context"
	"net/url"
	"strings"

	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/skills"
	"helix/backend/skills/definition"
)

// anyHost is what a request needs whose address is known only when it is sent.
const anyHost = "network:https(host of the url)"

// httpRights says what a step http.request needs and whether it is granted. An address that
// comes from the run's data is not known before: then somebody may have to be asked.
func (b *Backend) httpRights(ctx context.Context, step *definition.Step) (skills.Rights, error) {
	text, known := literalURL(step)
	if !known {
		return skills.Rights{Needs: []string{anyHost}, Missing: []string{anyHost}, Tier: sideEffecting}, nil
	}
	refused := func(err error) (skills.Rights, error) {
		return skills.Rights{Tier: sideEffecting, Denied: fault.As(err).Message}, nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return refused(fault.Invalidf("The address cannot be read."))
	}
	capability, resource, err := reaches(u)
	if err != nil {
		return refused(err)
	}
	if resource, err = permission.Normalize(capability, resource); err != nil {
		return refused(err)
	}
	return rightsOf(ctx, b.Permission, builtinKind, definition.Callable{ID: httpSubject(capability, resource).ID, Name: httpStep, Tier: sideEffecting})
}

// literalURL gives the address of a step that always asks the same one.
func literalURL(step *definition.Step) (string, bool) {
	v, mapped := step.InputMapping["url"]
	if !mapped {
		v = step.Parameters["url"]
	}
	text, ok := v.(string)
	if !ok || mapped && strings.HasPrefix(text, "$") {
		return "", false
	}
	return text, true
}

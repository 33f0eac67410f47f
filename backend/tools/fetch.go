package tools

import (
	"context"

	"helix/backend/fault"
	"helix/backend/sandbox"
)

func (h *host) fetch(ctx context.Context, c *call, p sandbox.FetchRequest) (sandbox.FetchResponse, error) {
	return sandbox.FetchResponse{}, fault.Unavailablef("The network is not available to tools.")
}

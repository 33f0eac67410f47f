package backend

import (
	"context"
	"reflect"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/sandbox"
	"helix/backend/tools"
)

// SandboxStatus is what the engine says about itself, with the bounds that runs have.
type SandboxStatus struct {
	sandbox.Status
	MinIsolation string           `json:"minIsolation"` // the setting: weakest isolation under which modules of others may run
	Isolation    string           `json:"isolation"`    // that modules of others have on this computer
	Reasons      []string         `json:"reasons"`      // why that is not more, such as bwrap_missing
	Profiles     []SandboxProfile `json:"profiles"`     // the bounds by profile, tightest first
}

// SandboxProfile is a named set of bounds for one run.
type SandboxProfile struct {
	Name string `json:"name"` // strict, standard, permissive or wasm
	tools.SkillLimits
	Fuel       uint64 `json:"fuel"` // units of work
	StackBytes int64  `json:"stackBytes"`
}

// SandboxChanged is published when the state of the sandbox changes in a way that a person
// may want to see.
type SandboxChanged struct {
	Status SandboxStatus `json:"status"`
}

// ClearedCache says what left with the cache.
type ClearedCache struct {
	Bytes   int64 `json:"bytes"`
	Modules int   `json:"modules"`
}

// SandboxStatus says how the engine that runs untrusted code is: what it is, its tiers, its
// pool, its cache, and the bounds of each profile.
func (b *Backend) SandboxStatus(context.Context, struct{}) (SandboxStatus, error) {
	return b.sandboxStatus(), nil
}

func (b *Backend) sandboxStatus() SandboxStatus {
	s := SandboxStatus{Status: b.Sandbox.Status(), MinIsolation: b.Config.Current().SandboxMinIsolation, Profiles: []SandboxProfile{}}
	s.Isolation, s.Reasons = tools.Isolation(s.Status)
	for _, name := range sandbox.ProfileNames {
		l, _ := sandbox.Profile(name)
		s.Profiles = append(s.Profiles, SandboxProfile{Name: name, SkillLimits: tools.WireLimits(l), Fuel: l.Fuel, StackBytes: l.StackBytes})
	}
	return s
}

// SandboxClearCache deletes compiled code that is kept between starts. What runs goes on;
// the next start of each module compiles it once more.
func (b *Backend) SandboxClearCache(context.Context, struct{}) (ClearedCache, error) {
	before := b.Sandbox.Status().Cache
	if err := b.Sandbox.ClearCache(); err != nil {
		return ClearedCache{}, err
	}
	after := b.Sandbox.Status().Cache
	b.tellSandbox()
	return ClearedCache{Bytes: max(0, before.Bytes-after.Bytes), Modules: max(0, before.Modules-after.Modules)}, nil
}

func (b *Backend) tellSandbox() {
	bus.Publish(b.Bus, uuid.Nil, SandboxChanged{b.sandboxStatus()})
}

// watchEvery is how often the state of the sandbox is compared.
const watchEvery = 5 * time.Second

// watchSandbox tells the clients when the state of the sandbox changed, until ctx ends.
func (b *Backend) watchSandbox(ctx context.Context) error {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	last := b.sandboxStatus()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		if now := b.sandboxStatus(); !reflect.DeepEqual(now, last) {
			last = now
			bus.Publish(b.Bus, uuid.Nil, SandboxChanged{now})
		}
	}
}

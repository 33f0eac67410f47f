package wasmtools

import (
	"context"
	"reflect"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/sandbox"
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
	SkillLimits
	Fuel       uint64 `json:"fuel"` // units of work
	StackBytes int64  `json:"stackBytes"`
}

// SkillLimits are the limits that a run had.
type SkillLimits struct {
	WallMs      int64 `json:"wallMs"`
	CPUMs       int64 `json:"cpuMs"`
	MemoryBytes int64 `json:"memoryBytes"`
	InputBytes  int64 `json:"inputBytes"`
	OutputBytes int64 `json:"outputBytes"`
	LogBytes    int64 `json:"logBytes"`
	HostCalls   int   `json:"hostCalls"`
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

// SandboxStatus describes the engine that runs untrusted code: what it is, its tiers, its
// pool, its cache, and the bounds of each profile.
func (s *Service) SandboxStatus(context.Context, struct{}) (SandboxStatus, error) {
	return s.sandboxStatus(), nil
}

func (s *Service) sandboxStatus() SandboxStatus {
	out := SandboxStatus{Status: s.box.Status(), MinIsolation: s.setting, Profiles: []SandboxProfile{}}
	out.Isolation, out.Reasons = Isolation(out.Status)
	for _, name := range sandbox.ProfileNames {
		l, _ := sandbox.Profile(name)
		out.Profiles = append(out.Profiles, SandboxProfile{Name: name, SkillLimits: WireLimits(l), Fuel: l.Fuel, StackBytes: l.StackBytes})
	}
	return out
}

// SandboxClearCache deletes compiled code that is kept between starts. What runs goes on;
// the next start of each module compiles it once more.
func (s *Service) SandboxClearCache(context.Context, struct{}) (ClearedCache, error) {
	before := s.box.Status().Cache
	if err := s.box.ClearCache(); err != nil {
		return ClearedCache{}, err
	}
	after := s.box.Status().Cache
	bus.Publish(s.db.Bus(), uuid.Nil, SandboxChanged{s.sandboxStatus()})
	return ClearedCache{Bytes: max(0, before.Bytes-after.Bytes), Modules: max(0, before.Modules-after.Modules)}, nil
}

// sandboxWatchEvery is how often the state of the sandbox is compared.
const sandboxWatchEvery = 5 * time.Second

// WatchSandbox publishes SandboxChanged when the state of the sandbox has changed, until ctx ends.
func (s *Service) WatchSandbox(ctx context.Context) error {
	t := time.NewTicker(sandboxWatchEvery)
	defer t.Stop()
	last := s.sandboxStatus()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		if now := s.sandboxStatus(); !reflect.DeepEqual(now, last) {
			last = now
			bus.Publish(s.db.Bus(), uuid.Nil, SandboxChanged{now})
		}
	}
}

// WireLimits gives limits the form that clients read.
func WireLimits(l sandbox.Limits) SkillLimits {
	return SkillLimits{
		WallMs: l.Wall.Milliseconds(), CPUMs: l.CPU.Milliseconds(), MemoryBytes: l.MemoryBytes, InputBytes: l.InputBytes,
		OutputBytes: l.OutputBytes, LogBytes: l.LogBytes, HostCalls: l.HostCalls,
	}
}

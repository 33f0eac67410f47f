package voice

import (
	"context"
	"time"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/transcribe"
)

// progressEvery is the shortest time between two events about a download.
const progressEvery = 250 * time.Millisecond

// downloader is an engine whose models can be downloaded.
type downloader interface {
	transcribe.Engine
	Models() *transcribe.Models
}

// ModelParams identify a model of a local engine.
type ModelParams struct {
	Engine string `json:"engine,omitempty"` // default: whispercpp
	Model  string `json:"model"`
}

// ModelProgress is published while a model is downloaded, at most four times per second, and when
// that ends.
type ModelProgress struct {
	Engine string `json:"engine"`
	Model  string `json:"model"`
	Done   int64  `json:"done"` // bytes
	Size   int64  `json:"size"` // bytes
	Ended  bool   `json:"ended"`
}

// models returns the models of the engine in p.
func (s *Service) models(p *ModelParams) (*transcribe.Models, transcribe.ModelState, error) {
	if p.Engine == "" {
		p.Engine = "whispercpp"
	}
	e, ok := s.engine(p.Engine).(downloader)
	if !ok {
		return nil, transcribe.ModelState{}, fault.InvalidField("engine", fault.CodeRange, "The engine %.40q has no models to install.", p.Engine)
	}
	for _, state := range e.Models().List() {
		if state.ID == p.Model {
			return e.Models(), state, nil
		}
	}
	return nil, transcribe.ModelState{}, fault.InvalidField("model", fault.CodeRange, "There is no model %.40q. List the models with: helix voice models", p.Model)
}

// InstallModel downloads a model and checks it. If the call is canceled, what was downloaded is kept,
// and the next call continues. Remove the model to delete that too.
func (s *Service) InstallModel(ctx context.Context, p ModelParams) (out EnginesResult, err error) {
	m, state, err := s.models(&p)
	if err != nil {
		return out, err
	}
	user := identity.UserID(ctx)
	event := ModelProgress{Engine: p.Engine, Model: p.Model, Done: state.Done, Size: state.Size}
	var last time.Time
	err = m.Install(ctx, p.Model, func(done int64) {
		if event.Done = done; time.Since(last) >= progressEvery {
			last = time.Now()
			bus.Publish(s.o.Bus, user, event)
		}
	})
	event.Ended = true
	bus.Publish(s.o.Bus, user, event)
	if err != nil {
		return out, err
	}
	s.wakeUp() // for jobs that wait for the engine
	return s.Engines(ctx, struct{}{})
}

// RemoveModel ends the download of a model, if there is one, and deletes its file.
func (s *Service) RemoveModel(ctx context.Context, p ModelParams) (out EnginesResult, err error) {
	m, _, err := s.models(&p)
	if err != nil {
		return out, err
	}
	if err := m.Remove(p.Model); err != nil {
		return out, err
	}
	return s.Engines(ctx, struct{}{})
}

package cli

import (
	"io"
	"log/slog"

	"helix/backend/config"
	"helix/backend/embed"
	"helix/backend/fault"
	"helix/backend/memory/locomo"
	"helix/backend/memory/search"
)

type memoryLocomoCmd struct {
	Dir     string `arg:"" type:"existingdir" help:"Folder with the conversations in JSON."`
	Tune    bool   `help:"Also choose settings by leaving one conversation out at a time."`
	Weights string `help:"Weights of keywords, meaning and neighbors, such as 1,0.4,0.5." placeholder:"W,M,N"`
}

// Run works in a temporary folder; it needs neither a running Helix nor its data.
func (m *memoryLocomoCmd) Run(c *command) error {
	w, ok := config.Numbers(m.Weights, 3, 10)
	if !ok {
		return fault.Invalidf("--weights are three numbers from 0 to 10, such as 1,0.4,0.5.")
	}
	o := locomo.Options{Tune: m.Tune, Weights: search.Weights{Keyword: w[0], Vector: w[1], Window: w[2]}, Logger: slog.New(slog.DiscardHandler)}
	if model, err := embed.Open(); err != nil {
		c.say("%s Measured with keywords only.", fault.As(err).Message)
	} else {
		defer model.Release()
		o.Embedder = model
	}
	out := c.env.Stdout
	if c.JSON {
		out = io.Discard
	}
	r, err := locomo.Run(c.ctx, m.Dir, o, out)
	if err != nil {
		return err
	}
	if c.JSON {
		return c.printJSON(r)
	}
	return nil
}

"""oslo.config groups, one module per group; read only at composition roots."""

"""The accelerator API v2, in Cyborg's shapes (contract section 1.5): one module per noun, each with its wire types and handlers."""

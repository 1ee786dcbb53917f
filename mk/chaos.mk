# The tier of crashes and crowds: every process killed at every step, 16 processes racing, the model for 50,000 steps. See docs/chaos.md.
.PHONY: chaos chaos-crashes chaos-races chaos-model

# JOBS=4 runs so many installations at a time; POINTS=400 takes so many points of each database by chance in place of all.
chaos: chaos-crashes chaos-races chaos-model ## kill everything everywhere, race, and walk the model (an hour or more; MariaDB as root)

chaos-crashes: ready-dev
	@$(PY) -m tests.chaos $(if $(JOBS),--jobs $(JOBS)) $(if $(POINTS),--sample $(POINTS))

chaos-races:
	@$(BOOTSTRAP) dev mysql
	@$(PY) -m tests.chaos.race --database postgresql
	@$(PY) -m tests.chaos.race --database mariadb
	@$(PY) -m tests.chaos.tug --database postgresql
	@$(PY) -m tests.chaos.tug --database mariadb

chaos-model: ready-dev
	@$(PY) -m tests.chaos.model $(if $(JOBS),--jobs $(JOBS))

"""Planning: estate and policy in, a plan out (M7.1 to M7.5); and a checker that shares no code with the planner. Pure, no I/O."""

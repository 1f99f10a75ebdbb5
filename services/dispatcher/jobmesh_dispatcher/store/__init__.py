"""What the dispatcher does to the database: one decision a module, one transaction a decision."""

"""Years of forecasts, each by a model that was trained on earlier years only."""
